"""Tables in Parquet files, which pyarrow reads (requirements-parquet.txt)."""

from collections.abc import Iterator
from typing import Any

from command_line import errors
from system import inputs


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file, by the names of its columns.

    Raises:
      errors.UserError: the file is damaged, or pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise errors.UserError(
            f"{path}: pyarrow is not installed; Parquet files need it: pip install -r "
            "requirements-parquet.txt"
        ) from None
    try:
        with inputs.open_binary(path) as file:
            for batch in parquet.ParquetFile(file).iter_batches():
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise errors.UserError(f"{path}: not a Parquet file, or damaged: {error}") from None
