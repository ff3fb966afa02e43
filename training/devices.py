"""From device flags to a tf.distribute strategy."""

import ctypes
import json
import os
import sys

import tensorflow as tf

from command_line import errors, options


def create_strategy(flags: options.DeviceOptions) -> tf.distribute.Strategy:
    """Sets up the requested devices; call it before anything else uses TensorFlow.

    Returns:
      TPUStrategy with --use_tpu, MirroredStrategy over several GPUs or CPU devices, else the
      default strategy.

    Raises:
      errors.FlagError: too many devices, no TPU, contradicting flags, or several workers.
    """
    _check_cluster()
    if flags.use_tpu:
        for name, default in (("num_gpus", -1), ("num_cpu_devices", 1)):
            if (value := getattr(flags, name)) != default:
                raise errors.FlagError(
                    f"--{name}={value} does nothing with --use_tpu; leave it out"
                )
        return _tpu(flags)
    gpus = tf.config.list_physical_devices("GPU")
    if flags.num_gpus > len(gpus):
        raise errors.FlagError(
            f"--num_gpus={flags.num_gpus}: this machine has {len(gpus)}; use --num_gpus={len(gpus)}"
        )
    gpus = gpus if flags.num_gpus < 0 else gpus[: flags.num_gpus]
    if gpus and flags.num_cpu_devices > 1:
        raise errors.FlagError("--num_cpu_devices needs a run on the CPU; add --num_gpus=0")
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
    _keep_freed_memory()
    # Rewriting the graph of a step takes 1.4 s at the start, and makes no step faster on a CPU.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if count == 1:
        return tf.distribute.get_strategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    logical = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [logical] * count)
    return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])


def _keep_freed_memory() -> None:
    """Makes the C library keep the memory of freed tensors for the next ones.

    By default the threads that run a step give the pages of its large tensors back to the kernel,
    which hands out zeroed ones again: 11,000 page faults, a tenth of the processor time, in a
    prediction of 1,700 tokens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if not mallopt:  # another C library than glibc
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # as malloc.h numbers them
    mallopt(trim_threshold, 2**31 - 1)  # bytes at the end of the heap that may lie idle
    mallopt(top_pad, 2**28)  # reserved, not used, whenever the heap grows
    mallopt(mmap_threshold, 2**25)  # larger ones have pages of their own; the most it takes


def _tpu(flags: options.DeviceOptions) -> tf.distribute.Strategy:
    name = flags.tpu_name or flags.master
    if name != "local":
        # The input pipeline runs Python functions, which a remote host cannot call.
        raise errors.FlagError(
            f"--use_tpu with --tpu_name={name}: only the TPU of this machine can be used; run on a "
            "TPU VM with --tpu_name=local, or leave --use_tpu out"
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, OSError) as error:
        reason = errors.reason(error)[:200]
        raise errors.FlagError(
            f"--tpu_name={name}: no TPU could be reached ({reason}); run on a TPU VM with a "
            "TensorFlow built for TPUs, or leave --use_tpu out"
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def _check_cluster() -> None:
    """Refuses several workers, which would train independently and overwrite each other's files."""
    setting = os.environ.get("TF_CONFIG") or "{}"
    try:
        cluster = json.loads(setting).get("cluster", {})
        workers = sum(len(hosts) for job, hosts in cluster.items() if job in ("chief", "worker"))
    except (ValueError, AttributeError, TypeError):
        raise errors.FlagError(
            f"TF_CONFIG={setting[:80]}: expected JSON such as "
            '{"cluster": {"worker": ["host:port"]}}; unset it to train on this machine alone'
        ) from None
    if workers > 1:
        raise errors.FlagError(
            f"TF_CONFIG names {workers} workers: runs over several machines are not part of this "
            "version; unset TF_CONFIG to train on this machine alone"
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes checkpoints and results."""
    return strategy.extended.should_checkpoint


def describe(strategy: tf.distribute.Strategy) -> list[str]:
    """Names of the devices, for the log and run.json."""
    if strategy.num_replicas_in_sync > 1:
        return sorted(strategy.extended.worker_devices)
    device_type = "GPU" if tf.config.get_visible_devices("GPU") else "CPU"
    return [device.name for device in tf.config.list_logical_devices(device_type)[:1]]
