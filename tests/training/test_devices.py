"""From flags to devices."""

import json
import pathlib
import platform
import subprocess
import sys

import pytest
import tensorflow as tf

from command_line import errors, options
from training import devices


def test_one_cpu_is_the_default_strategy():
    strategy = devices.create_strategy(options.DeviceOptions())
    assert strategy.num_replicas_in_sync == 1
    assert devices.is_chief(strategy)
    assert devices.describe(strategy) == ["/device:CPU:0"]


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"num_gpus": 2}, "--num_gpus=2: this machine has 0"),
        ({"use_tpu": True, "num_gpus": 0}, "--num_gpus=0 does nothing with --use_tpu"),
        ({"use_tpu": True, "num_cpu_devices": 2}, "--num_cpu_devices=2 does nothing with"),
        ({"use_tpu": True}, "only the TPU of this machine"),
        ({"use_tpu": True, "tpu_name": "local"}, "--tpu_name=local: no TPU could be reached"),
        ({"use_tpu": True, "tpu_name": "mine"}, "--tpu_name=mine: only the TPU of this machine"),
        ({"use_tpu": True, "master": "grpc://nowhere:1"}, "--tpu_name=grpc://nowhere:1: only"),
    ],
)
def test_devices_that_are_not_there(flags, message, monkeypatch):
    def unreachable(*_, **__):
        raise ValueError("no such TPU")

    resolver = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolver, "TPUClusterResolver", unreachable)
    with pytest.raises(errors.FlagError) as raised:
        devices.create_strategy(options.DeviceOptions(**flags))
    assert message in str(raised.value)


_PAGES = """
import resource, sys
import numpy as np, tensorflow as tf
import modeling
from command_line import options
from training import devices
if sys.argv[1] == "kept":
    devices.create_strategy(options.DeviceOptions())
sizes = dict(hidden_size=384, num_attention_heads=12, intermediate_size=1536)
model = modeling.BertModel(modeling.BertConfig(99, num_hidden_layers=2, **sizes))
batches = [np.ones([32, length], np.int32) for length in (40, 70, 50, 60)]
spec = tf.TensorSpec([None, None], tf.int32)
data = tf.data.Dataset.from_generator(lambda: batches, output_signature=spec).repeat()
iterator = iter(data.prefetch(2))  # whoever waits for data hands the step to another thread
step = tf.function(lambda: model.encode_pooled(next(iterator), training=False), autograph=False)
counts = []
for _ in range(24):
    step().numpy()
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(counts[-1] - counts[-9])
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_of_tensors_is_kept_from_step_to_step():
    def faults(how):
        command = [sys.executable, "-c", _PAGES, how]
        root = pathlib.Path(__file__).resolve().parents[2]
        return int(subprocess.run(command, capture_output=True, check=True, cwd=root).stdout)

    assert 4 * faults("kept") < faults("given back") > 10_000


def test_the_other_tpu_flags_mean_nothing_without_use_tpu():
    flags = options.DeviceOptions(tpu_name="mine", tpu_zone="z", gcp_project="p", master="m")
    assert devices.create_strategy(flags).num_replicas_in_sync == 1


@pytest.mark.parametrize("setting", ["{", "[]", '{"cluster": 5}', '{"cluster": {"worker": 3}}'])
def test_a_cluster_that_cannot_be_read(setting, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", setting)
    with pytest.raises(errors.FlagError, match="TF_CONFIG=.*: expected JSON such as"):
        devices.create_strategy(options.DeviceOptions())


def test_several_workers_are_refused(monkeypatch):
    one = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(one))
    assert devices.create_strategy(options.DeviceOptions()).num_replicas_in_sync == 1
    one["cluster"]["worker"].append("b:1")
    monkeypatch.setenv("TF_CONFIG", json.dumps(one))
    with pytest.raises(errors.FlagError, match="TF_CONFIG names 2 workers"):
        devices.create_strategy(options.DeviceOptions())
