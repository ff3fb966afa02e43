"""From flags to a tf.distribute strategy: what a replica, a worker and a chief is."""

from __future__ import annotations

import logging
import os

import tensorflow as tf

import errors
import options

_log = logging.getLogger(__name__)

COMPUTE_DTYPES = {"float32": tf.float32, "bfloat16": tf.bfloat16, "float16": tf.float16}


def create_strategy(flags: options.DeviceOptions) -> tf.distribute.Strategy:
    """Finds the devices that the flags ask for; call it before anything else uses TensorFlow.

    Returns:
      TPUStrategy with --use_tpu, MirroredStrategy over several GPUs or CPU devices, else the
      default strategy.

    Raises:
      errors.FlagError: more devices than there are, or no TPU within reach.
    """
    if flags.use_tpu:
        return _tpu(flags)
    gpus = tf.config.list_physical_devices("GPU")
    if flags.num_gpus > len(gpus):
        raise errors.FlagError(
            f"--num_gpus={flags.num_gpus}: this machine has {len(gpus)}; use --num_gpus={len(gpus)}"
        )
    gpus = gpus if flags.num_gpus < 0 else gpus[: flags.num_gpus]
    if gpus and flags.num_cpu_devices > 1:
        raise errors.FlagError("--num_cpu_devices is for rehearsals on the CPU; add --num_gpus=0")
    if not gpus:
        return _cpu(flags.num_cpu_devices)
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if len(gpus) == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"GPU:{index}" for index in range(len(gpus))])


def _cpu(count: int) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if count == 1:
        return tf.distribute.get_strategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    part = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [part] * count)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])


def _tpu(flags: options.DeviceOptions) -> tf.distribute.Strategy:
    name = flags.tpu_name or flags.master
    if not name:
        raise errors.FlagError(
            "--use_tpu needs --tpu_name: 'local' on a TPU VM, else a name or address"
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=flags.tpu_zone or None, project=flags.gcp_project or None
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise errors.FlagError(
            f"--tpu_name={name}: no TPU could be reached ({reason}); run on a TPU VM with a "
            f"TensorFlow built for TPUs, or leave --use_tpu out"
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes checkpoints and results."""
    return strategy.extended.should_checkpoint


def describe(strategy: tf.distribute.Strategy) -> list[str]:
    """Names of the devices, for the log and run.json."""
    if strategy.num_replicas_in_sync > 1:
        return sorted(strategy.extended.worker_devices)
    kind = "GPU" if tf.config.get_visible_devices("GPU") else "CPU"
    return [device.name for device in tf.config.list_logical_devices(kind)[:1]]


def is_remote(path: str) -> bool:
    return "://" in path


def check_paths(flags: options.DeviceOptions, paths: dict[str, str]) -> None:
    """A TPU that is not on this machine reads and writes buckets only.

    Args:
      flags: device flags.
      paths: path by flag name.

    Raises:
      errors.FlagError: naming the flag with a local path.
    """
    if not flags.use_tpu or flags.tpu_name in ("", "local"):
        return
    for name, path in paths.items():
        if path and not is_remote(path) and not os.environ.get("TPU_NAME") == "local":
            raise errors.FlagError(
                f"--{name}={path}: with a remote TPU it must be in a bucket (gs://…)"
            )
