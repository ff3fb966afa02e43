r"""Tables of labelled texts: tab separated, CSV or JSON lines, row by row with line numbers.

Tab separated means what the original release and GLUE mean by it: no quoting, one line is one row,
and only ``\n`` ends a line. CSV has real quoting, so a row may take several lines.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from command_line import errors
from system import inputs

Column = int | str  # a number from 0 (-1: the last), or a name in the header or a JSON key

_SHOWN = 40  # characters of a line in messages
_LONGEST_CELL = 2**31 - 1  # characters; the most that the csv module takes on every system
_HINTS = {
    "tsv": "is the file tab separated?",
    "csv": "is the file comma separated?",
    "json": "has every object this key?",
}


class Row(NamedTuple):
    """One row.

    Attributes:
      line: line number in the file, from 1, of the row's first line.
      fields: the cells; of JSON lines the object.
    """

    line: int
    fields: Sequence[str] | Mapping[str, Any]


class Table:
    """A file, read once from front to back.

    Args:
      path: local or with ``://``; ``.gz`` is unpacked on the way.
      header: whether the first row names the columns; of no meaning for JSON lines.
      kind: "tsv", "csv" or "json"; default from the name (.csv; .jsonl, .json, .ndjson; else tsv).
      quote: quote character of a tab separated file; default none.

    Attributes:
      header: the names of the columns, or None.

    Raises:
      errors.UserError: naming file and line of what cannot be read; here about the header, while
        iterating about rows.
    """

    def __init__(
        self, path: str, header: bool, kind: str | None = None, quote: str | None = None
    ) -> None:
        self.path = path
        self.kind = kind or kind_of(path)
        self.header: Sequence[str] | None = None
        self._rows = _READERS[self.kind](path) if not quote else _quoted(path, "\t", quote)
        if header and self.kind != "json":
            first = next(self._rows, None)
            if first is None:
                raise errors.UserError(f"{path} is empty; expected a header line")
            self.header = list(first.fields)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def column(self, column: Column, what: str) -> Column:
        """Turns a column's name into its number; a JSON key stays as it is.

        Args:
          column: name or number; digits are a number.
          what: what the column is for, for messages: "--label_column".

        Raises:
          errors.UserError: there is no such column, or several.
        """
        if self.kind == "json":
            return str(column)
        number = as_number(column)
        if number is not None:
            return number
        if self.header is None:
            raise errors.UserError(
                f"{self.path}: {what} is the name {column!r}, but the file is read without a "
                "header; give the column's number, from 0, or --has_header=true"
            )
        found = [index for index, name in enumerate(self.header) if name == column]
        if len(found) != 1:
            names = ", ".join(self.header)
            near = errors.suggest(str(column), list(self.header)) if not found else ""
            count = f"{len(found)} columns" if found else "no column"
            hint = f" ({_HINTS[self.kind]})" if len(self.header) == 1 else ""
            raise errors.UserError(
                f"{self.path}:1: {what}: {count} named {column!r}; the header has "
                f"{names[:200]}{near}{hint}"
            )
        return found[0]

    def has(self, row: Row, column: Column) -> bool:
        """Whether a row has a cell in a column as ``column`` returns it."""
        if isinstance(row.fields, Mapping):
            return row.fields.get(str(column)) is not None
        number = int(column)
        return -len(row.fields) <= number < len(row.fields)

    def is_short(self, row: Row, needed: int) -> bool:
        """Whether a row has fewer than ``needed`` cells; an object of JSON lines has none."""
        return not isinstance(row.fields, Mapping) and len(row.fields) < needed

    def cell(self, row: Row, column: Column, lists: bool = False) -> str:
        """The text of a cell.

        Args:
          row: a row of this table.
          column: as the method ``column`` returns it.
          lists: a JSON list is legal and becomes its JSON text.

        Raises:
          errors.UserError: the row has no such cell, or it is a JSON list or object.
        """
        if isinstance(row.fields, Mapping):
            return self._value(row, str(column), lists)
        if not self.has(row, column):
            raise self.too_short(row, int(column) + 1)
        return row.fields[int(column)]

    def _value(self, row: Row, key: str, lists: bool) -> str:
        assert isinstance(row.fields, Mapping)
        value = row.fields.get(key)
        if isinstance(value, str):
            return value
        if value is None and key in row.fields:
            raise errors.UserError(
                f"{self.path}:{row.line}: {key} is null; give it a value or leave the row out"
            )
        if value is None:
            keys = ", ".join(row.fields)
            raise errors.UserError(
                f"{self.path}:{row.line}: no value for key {key!r}, only {keys[:200]}"
                f"{errors.suggest(key, list(row.fields))}"
            )
        if isinstance(value, dict) or (isinstance(value, list) and not lists):
            raise errors.UserError(
                f"{self.path}:{row.line}: {key} is {shown(json.dumps(value))}; expected text"
            )
        return json.dumps(value)  # 1, 3.8, true

    def wrong(self, row: Row, column: Column, what: object, cure: str) -> errors.UserError:
        """The error about a cell: file, line, ``what`` is wrong, the column, and its ``cure``."""
        return errors.UserError(f"{self.path}:{row.line}: {what} ({self._name(column)}); {cure}")

    def _name(self, column: Column) -> str:
        if isinstance(column, str):
            return f"key {column!r}"
        if self.header is not None and self.has(Row(1, self.header), column):
            return f"column {shown(self.header[column])}"
        return f"column {column}" + (", from 0" if column >= 0 else "")

    def too_short(self, row: Row, needed: int, cure: str = "") -> errors.UserError:
        """The error about a row with fewer than ``needed`` cells; ``cure`` is added to it."""
        found = len(row.fields)
        joined = ("," if self.kind == "csv" else "\t").join(row.fields)
        return errors.UserError(
            f"{self.path}:{row.line}: {found} column{'s' * (found != 1)} found, {needed} needed: "
            f"{shown(joined)}; {_HINTS[self.kind]}{cure}"
        )


def as_number(column: Column) -> int | None:
    """The number a column is given by, or None if it is given by name."""
    if isinstance(column, int):
        return column
    return int(column) if column.removeprefix("-").isdecimal() else None


def needed(columns: Iterable[Column | None]) -> int:
    """The number of cells that a row must have to have all of some columns.

    Args:
      columns: as ``Table.column`` returns them; keys and None ask for nothing.
    """
    numbers = [column for column in columns if isinstance(column, int)]
    # Columns counted from the end must stand beyond those counted from the front.
    return max([-1, *numbers]) + 1 + max([0, *(-number for number in numbers)])


def shown(text: str) -> str:
    """The beginning of a text as it stands in messages: quoted, tabs visible."""
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")


def kind_of(path: str) -> str:
    """The kind of table that a file's name tells."""
    ending = path.removesuffix(".gz").rsplit(".", 1)[-1].lower()
    return {"csv": "csv", "jsonl": "json", "json": "json", "ndjson": "json"}.get(ending, "tsv")


def _lines(path: str) -> Iterator[str]:
    for number, data in enumerate(inputs.read_lines(path), 1):
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            yield data.decode()
        except UnicodeDecodeError as error:
            raise errors.UserError(
                f"{path}:{number}: byte 0x{data[error.start]:02X} at position {error.start} is not "
                "UTF-8; save the file as UTF-8 (a wrong text would be learned in silence)"
            ) from None


def _tab_separated(path: str) -> Iterator[Row]:
    blank: list[Row] = []
    width = None
    for number, line in enumerate(_lines(path), 1):
        row = Row(number, line.removesuffix("\r").split("\t"))
        width = width or len(row.fields)
        if row.fields == [""]:
            blank.append(row)
            continue
        yield from blank
        blank.clear()
        yield row
    # Blank lines at the end are no rows, unless a row is a single cell, which may be empty.
    if width == 1:
        yield from blank


def _quoted(path: str, separator: str, quote: str) -> Iterator[Row]:
    lines = (f"{line}\n" for line in _lines(path))
    reader = csv.reader(lines, delimiter=separator, quotechar=quote, strict=True)
    start = 1
    try:
        while (fields := _next_row(reader)) is not None:
            if fields:  # an empty line is no row: a row of one empty cell is written ""
                yield Row(start, fields)
            start = reader.line_num + 1
    except csv.Error as error:
        raise errors.UserError(f"{path}:{start}: {_quoting_trouble(str(error), quote)}") from None


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    """The next row, whose cells may be of any length; None: there is none."""
    # The limit is one for the whole process, and a guard that others may rely on.
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(before)


def _quoting_trouble(reason: str, quote: str) -> str:
    if "field limit" in reason:
        return (
            f"a cell has more than {_LONGEST_CELL} characters; is a quote ({quote}) opened in "
            "this row and not closed?"
        )
    if "end of data" in reason:
        reason = f"a quote ({quote}) is opened in this row and not closed"
    if "new-line character" in reason:
        reason = "a line ends in a carriage return alone"
    return f"{reason}; a quote inside a quoted cell is written twice"


def _comma_separated(path: str) -> Iterator[Row]:
    return _quoted(path, ",", '"')


def _json_lines(path: str) -> Iterator[Row]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            value = error
        if not isinstance(value, dict):
            raise errors.UserError(
                f"{path}:{number}: {shown(line)} is not a JSON object"
                f"{f' ({value})' if isinstance(value, Exception) else ''}; "
                "expected one object a line"
            )
        yield Row(number, value)


_READERS = {"tsv": _tab_separated, "csv": _comma_separated, "json": _json_lines}
