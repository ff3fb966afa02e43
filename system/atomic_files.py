"""Small files that appear whole or not at all, and waiting until data is on the disk."""

import contextlib
import os
import re

from system import temporaries


def write_text(path: str, text: str) -> None:
    """Writes a small file in UTF-8, which appears whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: str, data: bytes) -> None:
    """Writes a small file, which appears whole or not at all."""
    temporary = path + temporaries.suffix()
    if "://" in path:
        _write_remote(path, temporary, data)
        return
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        sync(temporary)
        os.replace(temporary, path)
        directory, name = os.path.split(path)
        temporaries.remove_abandoned(directory or ".", re.escape(name))
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.errno:  # a full disk does not say which file
            raise OSError(error.errno, error.strerror, path) from None
        raise


def _write_remote(path: str, temporary: str, data: bytes) -> None:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(data)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


def sync(path: str) -> None:
    """Waits until a file or directory is on the disk; object stores do that by themselves."""
    path = path.removeprefix("file://") or "."
    if "://" in path:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
