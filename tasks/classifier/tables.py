r"""Tables of labelled texts: tab separated, CSV, JSON or Parquet, read row by row.

Tab separated files follow the original release and GLUE: no quoting, one line is one row, and only
``\n`` ends a line. CSV files have quoted cells, so a row may span several lines. JSON has one
object a line, or is one list of objects.
"""

import csv
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from command_line import errors
from system import inputs, parquet_files

_WITH_KEYS = ("json", "parquet")

Column = int | str  # a number from 0 (-1: the last), or a name in the header or a JSON key

_EXCERPT_LENGTH = 40  # characters
# Characters; the largest limit that the csv module accepts on every system.
_MAX_CELL_LENGTH = 2**31 - 1
_HINTS = {
    "tsv": "is the file tab separated?",
    "csv": "is the file comma separated?",
    "json": "does every object have this key?",
    "parquet": "does the file have this column?",
}


class Row(NamedTuple):
    """One row.

    Attributes:
      line: number of the row's first line in the file, from 1; of the row itself in Parquet.
      fields: the cells; an object where they have keys; () for a blank line before other rows.
    """

    line: int
    fields: Sequence[str] | Mapping[str, Any]

    @property
    def is_blank(self) -> bool:
        """Whether it is a blank line."""
        return self.fields == ()


class Table:
    """A file whose rows can be iterated over once.

    Args:
      path: local or with ``://``; gzip-compressed files are unpacked.
      header: whether the first row names the columns; ignored where cells have keys.
      format: "tsv", "csv", "json" or "parquet"; default by the name (``format_of``).
      quote: quote character of a tab separated file; default none.

    Attributes:
      header: the names of the columns, or None.
      header_line: number of its line, from 1: that of the first line that is not blank.
      has_keys: whether the cells of each row have keys.

    Raises:
      errors.UserError: naming file and line of what cannot be read, of the header at once, of the
        rows while iterating.
    """

    def __init__(
        self, path: str, header: bool, format: str | None = None, quote: str | None = None
    ) -> None:
        self.path = path
        self.format = format or format_of(path)
        self.header: Sequence[str] | None = None
        self.header_line = 1
        self.has_keys = self.format in _WITH_KEYS
        self._rows = _READERS[self.format](path) if not quote else _quoted(path, "\t", quote)
        if header and not self.has_keys:
            first = next((row for row in self._rows if not row.is_blank), None)
            if first is None:
                raise errors.UserError(f"{path} is empty; expected a header line")
            self.header, self.header_line = list(first.fields), first.line

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def column(self, column: Column, flag: str) -> Column:
        """Turns a column's name into its number; a JSON key stays as it is.

        Args:
          column: name or number; digits are a number.
          flag: that gives the column, for messages: "--label_column".

        Raises:
          errors.UserError: no column or several columns have the name.
        """
        if self.has_keys:
            return str(column)
        number = column_number(column)
        if number is not None:
            return number
        if self.header is None:
            raise errors.UserError(
                f"{self.path}: {flag} is the name {column!r}, but the file is read without a "
                "header; give the column's number, from 0, or --has_header=true"
            )
        matches = [index for index, name in enumerate(self.header) if name == column]
        if len(matches) != 1:
            names = ", ".join(self.header)
            suggestion = _suggest(str(column), self.header) if not matches else ""
            count = f"{len(matches)} columns" if matches else "no column"
            hint = f" ({_HINTS[self.format]})" if len(self.header) == 1 else ""
            raise errors.UserError(
                f"{self.path}:{self.header_line}: {flag}: {count} named {column!r}; the header has "
                f"{names[:200]}{suggestion}{hint}"
            )
        return matches[0]

    def has_cell(self, row: Row, column: Column) -> bool:
        """Whether a row has a cell in a column, given as ``column`` returns it."""
        if isinstance(row.fields, Mapping):
            return not _is_missing(row.fields.get(str(column)))
        number = int(column)
        return -len(row.fields) <= number < len(row.fields)

    def is_null(self, row: Row, column: Column) -> bool:
        """Whether a row has a key without a value, as JSON and Parquet can have."""
        return isinstance(row.fields, Mapping) and _is_missing(row.fields.get(str(column), ""))

    def is_short(self, row: Row, needed: int) -> bool:
        """Whether a row has fewer than ``needed`` cells; never where cells have keys."""
        return not isinstance(row.fields, Mapping) and len(row.fields) < needed

    def cell(self, row: Row, column: Column, lists: bool = False) -> str:
        """The text of a cell.

        Args:
          row: a row of this table.
          column: as the method ``column`` returns it.
          lists: whether a JSON list is accepted; it is returned as JSON text.

        Raises:
          errors.UserError: the row has no such cell, or it is a JSON list or object.
        """
        if isinstance(row.fields, Mapping):
            return self._json_value(row, str(column), lists)
        if not self.has_cell(row, column):
            raise self.short_row_error(row, int(column) + 1)
        return row.fields[int(column)]

    def _json_value(self, row: Row, key: str, lists: bool) -> str:
        assert isinstance(row.fields, Mapping)
        value = row.fields.get(key)
        if isinstance(value, str):
            return value
        if _is_missing(value) and key in row.fields:
            raise errors.UserError(
                f"{self.path}:{row.line}: {key} is {json.dumps(value)}; give it a value or leave "
                "the row out"
            )
        if value is None:
            keys = ", ".join(row.fields)
            raise errors.UserError(
                f"{self.path}:{row.line}: no value for key {key!r}, only {keys[:200]}"
                f"{_suggest(key, row.fields)}"
            )
        if isinstance(value, dict | bytes) or (isinstance(value, list) and not lists):
            found = value if isinstance(value, bytes) else json.dumps(value, default=str)
            raise errors.UserError(
                f"{self.path}:{row.line}: {key} is {excerpt(str(found))}; expected text"
            )
        if isinstance(value, bool | int | float | list):
            return json.dumps(value, default=str)  # 1, 3.8, true
        return str(value)  # a date or a decimal number of Parquet

    def cell_error(self, row: Row, column: Column, problem: object, cure: str) -> errors.UserError:
        """The error about a cell: file and line, the problem, the column, and the cure."""
        return errors.UserError(
            f"{self.path}:{row.line}: {problem} ({self._column_name(column)}); {cure}"
        )

    def _column_name(self, column: Column) -> str:
        if isinstance(column, str):
            return f"key {column!r}"
        if self.header is not None and self.has_cell(Row(self.header_line, self.header), column):
            return f"column {excerpt(self.header[column])}"
        return f"column {column}" + (", from 0" if column >= 0 else "")

    def short_row_error(self, row: Row, needed: int, cure: str = "") -> errors.UserError:
        """The error about a row with fewer than ``needed`` cells; ``cure`` is appended."""
        count = len(row.fields)
        joined = ("," if self.format == "csv" else "\t").join(row.fields)
        return errors.UserError(
            f"{self.path}:{row.line}: {count} column{'s' * (count != 1)} found, {needed} needed: "
            f"{excerpt(joined)}; {_HINTS[self.format]}{cure}"
        )


def _suggest(column: str, names: Iterable[str]) -> str:
    """What may be meant by a column that does not exist."""
    several = set(map(str.strip, column.split(",")))
    if len(several) > 1 and several <= set(names):
        return "; a column for each label needs --multi_label"
    return errors.suggest(column, list(names))


def _is_missing(value: Any) -> bool:
    """Whether it is null, or NaN, which some programs write instead."""
    return value is None or value != value


def has_keys(path: str) -> bool:
    """Whether the cells of a file have keys, by its name."""
    return format_of(path) in _WITH_KEYS


def column_number(column: Column) -> int | None:
    """The number of a column that is given by number; None if it is given by name."""
    if isinstance(column, int):
        return column
    return int(column) if column.removeprefix("-").isdecimal() else None


def cells_needed(columns: Iterable[Column | None]) -> int:
    """The number of cells that a row needs to have all of some columns.

    Args:
      columns: as ``Table.column`` returns them; keys and None need no cells.
    """
    numbers = [column for column in columns if isinstance(column, int)]
    # A column counted from the end must not be one of those counted from the start.
    return max([-1, *numbers]) + 1 + max([0, *(-number for number in numbers)])


def excerpt(text: str) -> str:
    """The beginning of a text for messages: quoted, with tabs visible."""
    return repr(text[:_EXCERPT_LENGTH]) + ("…" if len(text) > _EXCERPT_LENGTH else "")


_LIST_START, _LIST_COMMA = re.compile(r"\s*"), re.compile(r"\s*,\s*")
_LIST_END = re.compile(r"\s*\]\s*")
_FORMATS = {"csv": "csv", "jsonl": "json", "json": "json", "ndjson": "json", "parquet": "parquet"}


def format_of(path: str) -> str:
    """The format of a table by its file name: "csv", "json", "parquet" or "tsv"."""
    return _FORMATS.get(path.lower().removesuffix(".gz").rsplit(".", 1)[-1], "tsv")


def _lines(path: str) -> Iterator[str]:
    for number, data in enumerate(inputs.read_lines(path), 1):
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            yield data.decode()
        except UnicodeDecodeError as error:
            raise errors.UserError(
                f"{path}:{number}: byte 0x{data[error.start]:02X} at position {error.start} is not "
                "UTF-8; save the file as UTF-8"
            ) from None


def _tab_separated(path: str) -> Iterator[Row]:
    """The rows; where a row is a single cell, blank lines are rows too, as it may be empty."""
    rows = (
        Row(number, line.removesuffix("\r").split("\t"))
        for number, line in enumerate(_lines(path), 1)
    )
    begin: list[Row] = []
    for row in rows:
        begin.append(row)
        if row.fields != [""]:
            break
    all_rows = itertools.chain(begin, rows)
    if not begin or len(begin[-1].fields) == 1:
        return all_rows
    return _without_end(Row(row.line, ()) if row.fields == [""] else row for row in all_rows)


def _without_end(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows without the blank ones at the end, which are not rows."""
    blank: list[Row] = []
    for row in rows:
        if row.is_blank:
            blank.append(row)
            continue
        yield from blank
        blank.clear()
        yield row


def _quoted(path: str, separator: str, quote: str) -> Iterator[Row]:
    """The rows; an empty line is not a row: a row of one empty cell is written ``""``."""
    return _without_end(_quoted_rows(path, separator, quote))


def _quoted_rows(path: str, separator: str, quote: str) -> Iterator[Row]:
    lines = (f"{line}\n" for line in _lines(path))
    reader = csv.reader(lines, delimiter=separator, quotechar=quote, strict=True)
    start = 1
    try:
        while (fields := _next_row(reader)) is not None:
            yield Row(start, fields or ())
            start = reader.line_num + 1
    except csv.Error as error:
        raise errors.UserError(f"{path}:{start}: {_quoting_message(str(error), quote)}") from None


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    """The next row, with cells of any length; None at the end."""
    # The limit holds for the whole process, where others may rely on it.
    previous_limit = csv.field_size_limit(_MAX_CELL_LENGTH)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(previous_limit)


def _quoting_message(reason: str, quote: str) -> str:
    if "field limit" in reason:
        return (
            f"a cell has more than {_MAX_CELL_LENGTH} characters; is a quote ({quote}) opened in "
            "this row and not closed?"
        )
    if "end of data" in reason:
        reason = f"a quote ({quote}) is opened in this row and not closed"
    if "new-line character" in reason:
        reason = (
            "a carriage return is inside a cell without quotes, or ends a line alone; put the cell "
            f"into quotes ({quote}), or end lines with \\n"
        )
    return f"{reason}; a quote inside a quoted cell is written twice"


def _json(path: str) -> Iterator[Row]:
    lines = enumerate(_lines(path), 1)
    begin: list[tuple[int, str]] = []
    for number, line in lines:
        begin.append((number, line))
        if line.strip():
            break
    all_lines = itertools.chain(begin, lines)
    if begin and begin[-1][1].lstrip().startswith("["):
        return _json_list(path, "\n".join(line for _, line in all_lines))
    return _without_end(_json_line(path, *line) for line in all_lines)


def _json_line(path: str, number: int, line: str) -> Row:
    if not line.strip():
        return Row(number, ())
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        value = error
    if not isinstance(value, dict):
        raise errors.UserError(
            f"{path}:{number}: {excerpt(line)} is not a JSON object"
            f"{f' ({value})' if isinstance(value, Exception) else ''}; "
            "expected one object a line, or one list of objects"
        )
    return Row(number, value)


def _json_list(path: str, text: str) -> Iterator[Row]:
    """The objects of a list."""
    decoder = json.JSONDecoder()
    end = text.index("[") + 1
    line = 1 + text.count("\n", 0, end)
    is_first = True
    while not (closing := _LIST_END.match(text, end)):
        between = _LIST_START.match(text, end) if is_first else _LIST_COMMA.match(text, end)
        if not between:
            raise errors.UserError(
                f"{path}:{line}: {excerpt(text[end:].strip())} follows an object; expected a comma "
                "or the end of the list"
            )
        start = between.end()
        line += text.count("\n", end, start)
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            value = error
        if not isinstance(value, dict):
            raise errors.UserError(
                f"{path}:{line}: {excerpt(text[start:])} is not a JSON object"
                f"{f' ({value})' if isinstance(value, Exception) else ''}; expected a list of "
                "objects"
            )
        yield Row(line, value)
        line += text.count("\n", start, end)
        is_first = False
    if closing.end() < len(text):
        raise errors.UserError(f"{path}: there is more after the list of objects; remove it")


def _parquet(path: str) -> Iterator[Row]:
    return itertools.starmap(Row, enumerate(parquet_files.read_rows(path), 1))


_READERS: dict[str, Callable[[str], Iterator[Row]]] = {
    "tsv": _tab_separated,
    "csv": functools.partial(_quoted, separator=",", quote='"'),
    "json": _json,
    "parquet": _parquet,
}
