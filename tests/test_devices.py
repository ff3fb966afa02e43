"""From flags to devices."""

from __future__ import annotations

import pytest
import tensorflow as tf

import devices
import errors
import options


def test_one_cpu_is_the_default_strategy():
    strategy = devices.create_strategy(options.DeviceOptions())
    assert strategy.num_replicas_in_sync == 1
    assert devices.is_chief(strategy)
    assert devices.describe(strategy) == ["/device:CPU:0"]


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"num_gpus": 2}, "--num_gpus=2: this machine has 0"),
        ({"use_tpu": True}, "--use_tpu needs --tpu_name"),
        ({"use_tpu": True, "tpu_name": "local"}, "--tpu_name=local: no TPU could be reached"),
        ({"use_tpu": True, "tpu_name": "mine"}, "--tpu_name=mine: no TPU could be reached"),
        ({"use_tpu": True, "master": "grpc://nowhere:1"}, "no TPU could be reached"),
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


def test_the_other_tpu_flags_mean_nothing_without_use_tpu():
    flags = options.DeviceOptions(tpu_name="mine", tpu_zone="z", gcp_project="p", master="m")
    assert devices.create_strategy(flags).num_replicas_in_sync == 1


def test_a_remote_tpu_needs_a_bucket():
    flags = options.DeviceOptions(use_tpu=True, tpu_name="mine")
    devices.check_paths(flags, {"output_dir": "gs://bucket/run", "init_checkpoint": ""})
    with pytest.raises(errors.FlagError, match="--output_dir=/tmp/run: .*must be in a bucket"):
        devices.check_paths(flags, {"output_dir": "/tmp/run"})
    for local in ("local", ""):
        devices.check_paths(
            options.DeviceOptions(use_tpu=bool(local), tpu_name=local), {"output_dir": "/tmp/run"}
        )
