"""From flags to devices."""

from __future__ import annotations

import json

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


def test_the_other_tpu_flags_mean_nothing_without_use_tpu():
    flags = options.DeviceOptions(tpu_name="mine", tpu_zone="z", gcp_project="p", master="m")
    assert devices.create_strategy(flags).num_replicas_in_sync == 1


def test_several_workers_are_refused(monkeypatch):
    one = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(one))
    assert devices.create_strategy(options.DeviceOptions()).num_replicas_in_sync == 1
    one["cluster"]["worker"].append("b:1")
    monkeypatch.setenv("TF_CONFIG", json.dumps(one))
    with pytest.raises(errors.FlagError, match="TF_CONFIG names 2 workers"):
        devices.create_strategy(options.DeviceOptions())
