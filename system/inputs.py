"""Which files an input flag means, and their lines.

TensorFlow is needed only for paths with ``://`` (``gs://…``), so worker processes that read local
files never import it.
"""

import collections
import contextlib
import glob
import gzip
import io
import itertools
import logging
import os
import re
import zlib
from collections.abc import Iterator
from typing import IO, Any

from command_line import errors

_log = logging.getLogger(__name__)

# How files begin that are not text but hold some, and what they are.
_GZIP = rb"\x1f\x8b"
_PACKED = {
    _GZIP: "compressed with gzip; unpack it with gunzip",
    rb"BZh[1-9]1AY&SY": "compressed with bzip2; unpack it with bunzip2",
    rb"\xfd7zXZ\0": "compressed with xz; unpack it with unxz",
    rb"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it with unzstd",
    rb"\xff\xfe|\xfe\xff": "text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16",
    rb"PK\x03\x04": "a zip archive or a spreadsheet; unpack it with unzip, or save it as CSV",
    rb"PAR1\x15": "a Parquet file, which is read as a table or as questions if its name ends in "
    ".parquet",
}


def expand(flag: str, patterns: str) -> list[str]:
    """Lists the files that the value of an input flag names.

    Args:
      flag: the flag's name without dashes, for messages.
      patterns: paths or patterns (``*``, ``?``, ``[...]``), comma separated. What exists under its
        literal name is taken as it is, so brackets or a comma may stand in a file name.

    Returns:
      Paths: items in the order given, the matches of each pattern sorted. A file that is named
      twice is listed twice, as in the original release (a warning says so).

    Raises:
      errors.UserError: naming the flag and each item that matches no file, or that is a directory.
    """
    items = [patterns] if is_file(patterns) else [item.strip() for item in patterns.split(",")]
    paths: list[str] = []
    unmatched = []
    for item in filter(None, items):
        matches = _matches(flag, item)
        if not matches:
            unmatched.append(item)
        paths.extend(matches)
    if unmatched:
        raise errors.UserError(f"--{flag}: no file matches {', '.join(unmatched)}; check the path")
    if not paths:
        raise errors.UserError(f"--{flag}={patterns!r} names no file; expected paths or patterns")
    for path, count in collections.Counter(paths).items():
        if count > 1:
            _log.warning("--%s names %s %d times", flag, path, count)
    return paths


def _matches(flag: str, item: str) -> list[str]:
    if is_file(item):
        return [item]
    if is_directory(item):
        raise errors.UserError(
            f"--{flag}: {item} is a directory; give the files in it, such as {item}/*"
        )
    return sorted(filter(is_file, _files(item).glob(item)))


def is_file(path: str) -> bool:
    """Whether there is an ordinary file, which a directory or a pipe is not."""
    return _files(path).exists(path) and not is_directory(path)


def is_directory(path: str) -> bool:
    """Whether there is a directory."""
    return _files(path).isdir(path)


class _Local:
    """The part of ``tf.io.gfile`` that is used here, for plain paths."""

    exists = staticmethod(os.path.isfile)  # no pipe, which would be waited for
    isdir = staticmethod(os.path.isdir)

    @staticmethod
    def glob(pattern: str) -> list[str]:
        return glob.glob(pattern, recursive=True)


def _files(path: str) -> Any:
    if "://" not in path:
        return _Local
    import tensorflow as tf

    return tf.io.gfile


def size(path: str) -> int:
    """Bytes of a file as it is stored."""
    return _files(path).stat(path).length if "://" in path else os.path.getsize(path)


def read_bytes(path: str) -> bytes:
    """The contents of a file, unpacked where it is gzip-compressed.

    Raises:
      errors.UserError: as ``read_lines``.
    """
    with unpacked(path) as file:
        return file.read()


def open_binary(path: str) -> IO[bytes]:
    """Opens a file for reading bytes; through ``tf.io.gfile`` where the path has ``://``."""
    if "://" not in path:
        return open(path, "rb")
    return io.BufferedReader(_Remote(_files(path).GFile(path, "rb")), buffer_size=1 << 20)


class _Remote(io.RawIOBase):
    r"""Bytes of a ``GFile``, whose own iteration over lines drops ``\r``."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, which is decompressed on the way if it begins as gzip files do.

    Raises:
      errors.UserError: also while reading: the compressed data is damaged or cut short, or the name
        ends in ``.gz`` but the file is not compressed; or it begins as files of other programs do.
    """
    with open_binary(path) as raw:
        kind = _how_packed(raw)
        if kind and kind != _PACKED[_GZIP]:
            raise errors.UserError(f"{path} is {kind}")
        if not kind:
            if path.lower().endswith(".gz"):
                raise errors.UserError(
                    f"{path} is damaged or not a gzip file; make it again, or rename it if it is "
                    "plain text"
                )
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw, mode="rb") as file:
                yield file  # type: ignore[misc]
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise errors.UserError(
                f"{path} is damaged gzip data ({error}); make it again"
            ) from None


def how_packed(path: str) -> str:
    """How a file is compressed by its first bytes, or which other program's it is, with the cure.

    Empty for all other files. Only gzip is unpacked here, and only while reading text.
    """
    with open_binary(path) as file:
        return _how_packed(file)


def _how_packed(file: Any) -> str:
    begin = file.peek(16)
    return next((kind for pattern, kind in _PACKED.items() if re.match(pattern, begin)), "")


def read_lines(path: str) -> Iterator[bytes]:
    r"""Yields the lines of a file, without their ``\n``.

    Only ``\n`` ends a line: Unicode's other line separators occur inside sentences and tokens.

    Raises:
      errors.UserError: as ``unpacked``.
    """
    with unpacked(path) as file:
        first = file.readline()
        if first.count(b"\r") > 1 and not first.endswith(b"\n"):
            raise errors.UserError(
                f"{path}: carriage returns end its lines, as on old Macs, but only \\n ends a "
                "line; convert it, with tr '\\r' '\\n'"
            )
        yield from (line.removesuffix(b"\n") for line in itertools.chain([first], file) if line)
