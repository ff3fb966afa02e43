"""One TensorFlow checkpoint on disk: its files, how they are written safely, and how they are read.

Format and names are those of TF1's Saver: ``<prefix>.index`` and ``<prefix>.data-0000i-of-0000n``.
Beside them stands ``<prefix>.state.json``, a small note of the training loop. Which checkpoints a
directory has, and which is the newest, is the matter of ``checkpoints``.
"""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from checkpoints import file_names
from command_line import errors
from system import atomic_files

if TYPE_CHECKING:
    import tensorflow as tf


class NamedArrays(Protocol):
    """Named arrays in a file, under the names of this project.

    Attributes:
      path: where they come from.
      shapes: name -> shape; known before any value is read.
      dtypes: name -> type of what ``read`` returns.
      ignored: names in the file that have no meaning here.
    """

    path: str
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]
    ignored: tuple[str, ...]

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]: ...


class Checkpoint:
    """A TensorFlow checkpoint, TF1's older single-file format too. See ``Weights``."""

    def __init__(self, prefix: str) -> None:
        """Reads the index.

        Raises:
          errors.UserError: naming the file that is missing, damaged or too short.
        """
        from tensorflow.python.training import py_checkpoint_reader

        self.path = prefix
        self.ignored: tuple[str, ...] = ()
        check_path(prefix)
        if not exists(prefix):
            raise errors.UserError(f"{prefix}.index: not found")
        try:
            # Not tf.train.load_checkpoint, which takes a prefix for a directory where one has its
            # name.
            self._reader = py_checkpoint_reader.NewCheckpointReader(prefix)
            shapes = self._reader.get_variable_to_shape_map()
            types = self._reader.get_variable_to_dtype_map()
        except _read_errors() as error:
            raise errors.UserError(
                f"{self._index()}: not a TensorFlow checkpoint, or damaged: {reason(error)}"
            ) from None
        self.shapes = {name: tuple(shapes[name]) for name in sorted(shapes)}
        self.dtypes = {name: np.dtype(types[name].as_numpy_dtype) for name in self.shapes}
        if self._index() != prefix:
            expected = sum(
                int(np.prod(shape, dtype=np.int64)) * types[name].size
                for name, shape in self.shapes.items()
            )
            self._check_data(expected)

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Values by name. Checksums are compared.

        Raises:
          KeyError: a name that is not in ``shapes``.
          errors.UserError: the data file is damaged.
        """
        values = {}
        for name in names:
            if name not in self.shapes:
                raise KeyError(name)
            try:
                values[name] = self._reader.get_tensor(name)
            except _read_errors() as error:
                data = [path for path in parts(self.path) if ".data-" in path]
                where = data[0] if len(data) == 1 else self.path
                raise errors.UserError(f"{where}: damaged at {name}: {reason(error)}") from None
        return values

    def _index(self) -> str:
        import tensorflow as tf

        index = f"{self.path}.index"
        return index if tf.io.gfile.exists(index) else self.path

    def _check_data(self, expected: int) -> None:
        """Data files must all be there and hold at least ``expected`` bytes together."""
        import tensorflow as tf

        found = collections.defaultdict(list)
        for path in parts(self.path):
            match = re.search(r"\.data-(\d{5})-of-(\d{5})$", path)
            if match:
                found[int(match[2])].append(path)
        whole = [paths for count, paths in found.items() if len(paths) == count]
        if not whole:
            there = ", ".join(os.path.basename(path) for paths in found.values() for path in paths)
            raise errors.UserError(
                f"{self.path}.data-*: data file missing beside the index (found {there or 'none'})"
            )
        size = sum(tf.io.gfile.stat(path).length for path in whole[0])
        if size < expected:
            raise errors.UserError(
                f"{whole[0][-1]}: cut short: {size} bytes, its index describes {expected}"
            )


def check_path(path: str) -> None:
    """Refuses what TensorFlow writes but cannot read: its reader takes the path for a pattern."""
    if "[" in path:
        raise errors.UserError(
            f"{path}: TensorFlow reads no checkpoint whose path has a [; rename the directory"
        )


def intact(prefix: str) -> bool:
    """Whether every value can be read; reads all of them."""
    try:
        checkpoint = Checkpoint(prefix)
        for name in checkpoint.shapes:
            checkpoint.read([name])
    except errors.UserError:
        return False
    return True


def write(prefix: str, tensors: Mapping[str, Any], note: str | None) -> None:
    """Writes the files of one checkpoint, its index last; after a failure none of them is left.

    Args:
      prefix: must not be in use: data and index cannot be replaced in one move.
      tensors: name -> tensor, variable, array or Python number.
      note: text for ``<prefix>.state.json``.

    Raises:
      tf.errors.OpError, OSError: the file system refused.
    """
    import tensorflow as tf

    remove(prefix)  # what a killed save of this very step left, index first
    try:
        if note is not None:
            atomic_files.write_text(f"{prefix}.state.json", note)
        names = sorted(tensors)
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[_as_tensor(tensors[name]) for name in names],
            )
        # SaveV2 renames its files into place but syncs nothing: after a power cut a listed
        # checkpoint could be empty.
        for path in [*parts(prefix), os.path.dirname(prefix)]:
            atomic_files.sync(path)
    except BaseException:
        remove(prefix)
        raise


def _as_tensor(value: Any) -> tf.Tensor:
    import tensorflow as tf

    # A Python int would become int32, and TF1 wants global_step as int64.
    return tf.convert_to_tensor(np.asarray(value) if isinstance(value, int | float) else value)


def copy(prefix: str, target: str) -> None:
    """Copies a checkpoint, its index last."""
    import tensorflow as tf

    remove(target)
    for path in reversed(parts(prefix)):
        twin = target + path[len(prefix) :]
        tf.io.gfile.copy(path, twin, overwrite=True)
        atomic_files.sync(twin)


def remove(prefix: str) -> None:
    """Deletes the files of a checkpoint, the index first: without it the rest is a leftover."""
    import tensorflow as tf

    for path in parts(prefix, rf"(?:{file_names.TEMPORARY})?"):
        tf.io.gfile.remove(path)


def exists(prefix: str) -> bool:
    """Whether a complete checkpoint was once written there."""
    import tensorflow as tf

    # The older single-file format has no index.
    return tf.io.gfile.exists(f"{prefix}.index") or (
        tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix)
    )


def parts(prefix: str, ending: str = "") -> list[str]:
    """The files of a checkpoint, the index first; ``ending`` is a pattern for what may follow."""
    import tensorflow as tf

    directory, base = os.path.split(prefix)
    # Listed, not globbed: a directory's name may hold [ or *.
    wanted = re.compile(re.escape(base) + file_names.PART + ending)
    names = [name for name in tf.io.gfile.listdir(directory or ".") if wanted.fullmatch(name)]
    names.sort(key=lambda name: (not name.endswith(".index"), name))
    return [os.path.join(directory, name) for name in names]


def reason(error: BaseException) -> str:
    """An error's text in one line, without TensorFlow's mention of ops and devices."""
    text = re.sub(r"\{\{.*?\}\}|\[Op:\w+\]", "", str(getattr(error, "message", "") or error))
    text = text.split(": perhaps your file is in a different file format")[0]
    return " ".join(text.split())


def _read_errors() -> tuple[type[Exception], ...]:
    """What TensorFlow's reader raises for damaged files, whatever the damage."""
    import tensorflow as tf

    return (tf.errors.OpError, IndexError, RuntimeError, UnicodeDecodeError)
