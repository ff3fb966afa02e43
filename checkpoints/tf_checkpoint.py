"""One TensorFlow checkpoint on disk: its files, how they are written safely, and how they are read.

Format and names are those of TF1's Saver: ``<prefix>.index`` and ``<prefix>.data-0000i-of-0000n``.
``<prefix>.state.json`` beside them holds small values of the training loop. ``manager`` knows which
checkpoints a directory has and which is the newest.
"""

import collections
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from checkpoints import file_names
from command_line import errors
from system import atomic_files

# What TensorFlow's reader raises for damaged files, whatever the damage.
_READ_ERRORS = (tf.errors.OpError, IndexError, RuntimeError, UnicodeDecodeError)


class NamedArrays(Protocol):
    """Named arrays in a file, under the names of this project.

    Attributes:
      path: of the file, or the prefix of a checkpoint.
      shapes: name -> shape; known before any value is read.
      dtypes: name -> type of what ``read`` returns.
      ignored: names in the file that no model of this project has.
    """

    path: str
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype]
    ignored: tuple[str, ...]

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]: ...


class Checkpoint:
    """A TensorFlow checkpoint, TF1's older single-file format too. See ``NamedArrays``."""

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
            # Not tf.train.load_checkpoint: where a directory has the name of the prefix, it would
            # open that.
            self._reader = py_checkpoint_reader.NewCheckpointReader(prefix)
            shapes = self._reader.get_variable_to_shape_map()
            types = self._reader.get_variable_to_dtype_map()
        except _READ_ERRORS as error:
            raise errors.UserError(
                f"{self._index()}: not a TensorFlow checkpoint, or damaged: {errors.reason(error)}"
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
            except _READ_ERRORS as error:
                data = [path for path in files(self.path) if ".data-" in path]
                damaged = data[0] if len(data) == 1 else self.path
                raise errors.UserError(
                    f"{damaged}: damaged at {name}: {errors.reason(error)}"
                ) from None
        return values

    def _index(self) -> str:
        index = f"{self.path}.index"
        return index if tf.io.gfile.exists(index) else self.path

    def _check_data(self, expected: int) -> None:
        """Requires all data files, holding at least ``expected`` bytes together."""
        by_count = collections.defaultdict(list)  # number of shards -> those that exist
        for path in files(self.path):
            match = re.search(r"\.data-(\d{5})-of-(\d{5})$", path)
            if match:
                by_count[int(match[2])].append(path)
        complete = [paths for count, paths in by_count.items() if len(paths) == count]
        if not complete:
            names = ", ".join(os.path.basename(path) for path in sum(by_count.values(), []))
            raise errors.UserError(
                f"{self.path}.data-*: data file missing beside the index (found {names or 'none'})"
            )
        size = sum(tf.io.gfile.stat(path).length for path in complete[0])
        if size < expected:
            raise errors.UserError(
                f"{complete[0][-1]}: cut short: {size} bytes, its index describes {expected}"
            )


def check_path(path: str) -> None:
    """Refuses a path that TensorFlow could write to but not read: its reader expands patterns."""
    if "[" in path:
        raise errors.UserError(
            f"{path}: TensorFlow cannot read a checkpoint whose path has a [; rename the directory"
        )


def is_intact(prefix: str) -> bool:
    """Whether every value can be read; reads all of them."""
    try:
        checkpoint = Checkpoint(prefix)
        for name in checkpoint.shapes:
            checkpoint.read([name])
    except errors.UserError:
        return False
    return True


def write(prefix: str, tensors: Mapping[str, Any], state_json: str | None) -> None:
    """Writes the files of one checkpoint, its index last; after a failure none of them is left.

    Args:
      prefix: must not be in use: data and index cannot be replaced in one move.
      tensors: name -> tensor, variable, array or Python number.
      state_json: text of ``<prefix>.state.json``; None: no such file.

    Raises:
      tf.errors.OpError, OSError: the file system refused.
    """
    remove(prefix)  # what a killed save of this very step left, index first
    try:
        if state_json is not None:
            atomic_files.write_text(f"{prefix}.state.json", state_json)
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
        for path in [*files(prefix), os.path.dirname(prefix)]:
            atomic_files.sync(path)
    except BaseException:
        remove(prefix)
        raise


def _as_tensor(value: Any) -> tf.Tensor:
    # A Python int would become int32, and TF1 wants global_step as int64.
    return tf.convert_to_tensor(np.asarray(value) if isinstance(value, int | float) else value)


def copy(prefix: str, target: str) -> None:
    """Copies a checkpoint, its index last."""
    remove(target)
    for path in reversed(files(prefix)):
        copied = target + path[len(prefix) :]
        tf.io.gfile.copy(path, copied, overwrite=True)
        atomic_files.sync(copied)


def remove(prefix: str) -> None:
    """Deletes the files of a checkpoint, the index first: without it the rest is a leftover."""
    for path in files(prefix, rf"(?:{file_names.TEMPORARY})?"):
        tf.io.gfile.remove(path)


def exists(prefix: str) -> bool:
    """Whether a save of this checkpoint was completed, as the index comes last."""
    # The older single-file format has no index.
    return tf.io.gfile.exists(f"{prefix}.index") or (
        tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix)
    )


def files(prefix: str, ending: str = "") -> list[str]:
    """The files of a checkpoint, the index first; ``ending``: a pattern for the end of names."""
    directory, base = os.path.split(prefix)
    # Listed, not globbed: the directory's name may contain * or ?.
    pattern = re.compile(re.escape(base) + file_names.PART + ending)
    names = [name for name in tf.io.gfile.listdir(directory or ".") if pattern.fullmatch(name)]
    names.sort(key=lambda name: (not name.endswith(".index"), name))
    return [os.path.join(directory, name) for name in names]
