"""Reads the rows of tables as examples, with checks of columns, labels and headers.

Rows to evaluate or to predict are never left out, because that would shift the predictions. Rows
that are left out of training data, or look wrong, are counted and reported once per file.
"""

import collections
import functools
import json
import logging
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from command_line import errors
from system import inputs
from tasks.classifier import examples, tables

_log = logging.getLogger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]")


class TableProcessor(examples.DataProcessor):
    """Reads the examples of one task.

    Args:
      spec: the task.
      language: of XNLI, a code such as "zh".
      skip_bad_rows: leave out and count training rows with too few columns instead of raising an
        error.
    """

    label_hint = "is this a header line, or the right --task_name?"

    def __init__(
        self, spec: examples.TaskSpec, *, language: str = "zh", skip_bad_rows: bool = False
    ) -> None:
        self.spec = spec
        self.kind = spec.kind
        self.metrics = spec.metrics
        self.language = language
        self.skip_bad_rows = skip_bad_rows or spec.skip_bad_rows

    def get_train_examples(self, data_dir: str) -> list[examples.InputExample]:
        return self._read_all("train", data_dir)

    def get_dev_examples(self, data_dir: str) -> list[examples.InputExample]:
        return self._read_all("dev", data_dir)

    def get_test_examples(self, data_dir: str) -> list[examples.InputExample]:
        return self._read_all("test", data_dir)

    def get_labels(self) -> list[str]:
        return list(self.spec.labels)

    def _read_all(self, part: str, data_dir: str) -> list[examples.InputExample]:
        paths = self.files(part, data_dir)
        return [example for path in paths for example in self.read(part, path)]

    def read(self, part: str, path: str) -> list[examples.InputExample]:
        """Reads a file as one of the "train", "dev" or "test" set.

        Raises:
          errors.UserError: naming file and line, what was found and what was expected.
        """
        return _Reader(self, part, path).read()

    def split(self, part: str) -> examples.Split:
        """The files and columns of "train", "dev" or "test".

        Raises:
          errors.UserError: the task has no such set.
        """
        split = getattr(self.spec, part)
        if split is None:
            raise errors.UserError(
                f"--task_name={self.spec.name} has no {part} set; train on mnli and predict "
                f"{self.spec.name} with that model (--do_predict --init_checkpoint=…)"
            )
        return split

    def files(self, part: str, data_dir: str) -> list[str]:
        """The files of "train", "dev" or "test".

        Raises:
          errors.UserError: no such file exists.
        """
        names = [name.format(language=self.language) for name in self.split(part).files]
        for name in names:
            for path in (os.path.join(data_dir, name), os.path.join(data_dir, f"{name}.gz")):
                if inputs.is_file(path):
                    return [path]
        folder = os.path.join(data_dir, self.spec.directory)
        hint = "check --data_dir"
        if os.path.isdir(folder):
            hint = f"did you mean --data_dir={folder}?"
        raise errors.UserError(
            f"no {' or '.join(names)} in {data_dir}, but --task_name={self.spec.name} reads it; "
            f"{hint}"
        )

    def skips_row(self, part: str, table: tables.Table, row: tables.Row, needed: int) -> bool:
        """Whether a row is left out of a set because it has too few columns.

        Raises:
          errors.UserError: it has too few, but must not be left out.
        """
        if not table.is_short(row, needed):
            return False
        if part == "train" and self.skip_bad_rows:
            return True
        cure = "; --skip_bad_rows leaves such rows out of training" if part == "train" else ""
        raise table.short_row_error(row, needed, cure)

    def parse_label(self, text: str) -> str | list[str]:
        """The label in the text of a cell.

        Raises:
          ValueError: it is not a label of the task; its text says why.
        """
        if self.kind == examples.REGRESSION:
            examples.regression_value(text)
            return text
        if self.kind == examples.MULTI_LABEL:
            return [self._checked(label) for label in parse_label_set(text)]
        return self._checked(self.spec.renamed.get(text.strip(), text.strip()))

    @functools.cached_property
    def _label_set(self) -> frozenset[str]:
        return frozenset(self.get_labels())

    def _checked(self, label: str) -> str:
        if label not in self._label_set:
            labels = self.get_labels()
            known = ", ".join(map(repr, labels[:10])) + (", …" if len(labels) > 10 else "")
            raise ValueError(f"label {tables.excerpt(label)} is not one of {known}")
        return label


def parse_label_set(text: str) -> list[str]:
    """The labels in a cell of a multi-label table: comma separated, or a JSON list.

    White space around a label is dropped, because labels.txt does not keep it.

    Raises:
      ValueError: it is not a list of labels; its text says why.
    """
    text = text.strip()
    if not text.startswith("["):
        return [label.strip() for label in text.split(",") if label.strip()]
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{tables.excerpt(text)} is not a JSON list of labels") from None
    return [_parse_item(item) for item in items]


def _parse_item(item: object) -> str:
    label = (item if isinstance(item, str) else json.dumps(item)).strip()
    if item is None or isinstance(item, list | dict):
        raise ValueError(f"the list of labels has {tables.excerpt(label)}, which is not a label")
    if not label:
        raise ValueError("the list of labels has an empty label")
    return label


class Columns(NamedTuple):
    """The columns of a table that are read, as ``tables.Table.column`` returns them."""

    text_a: tables.Column
    text_b: tables.Column | None
    label: tables.Column | None


def find_columns(table: tables.Table, split: examples.Split, part: str) -> Columns:
    """Finds the columns of the "train", "dev" or "test" set in a table.

    A test set needs no labels: if the header lacks their column, it is None.

    Raises:
      errors.UserError: a column does not exist.
      errors.FlagError: the column of the labels is also that of a text.
    """
    text_a = table.column(split.text_a, "--text_a_column")
    text_b = None if split.text_b is None else table.column(split.text_b, "--text_b_column")
    label, header = split.label, table.header
    if label is not None and part == "test" and header is not None:
        is_name = tables.column_number(label) is None
        label = None if is_name and label not in header else label
    if label is None:
        return Columns(text_a, text_b, None)
    column = table.column(label, "--label_column")
    if column in (text_a, text_b):
        flag = "text_a" if column == text_a else "text_b"
        raise errors.FlagError(
            f"--label_column={label} is also the --{flag}_column; give the column of the labels"
        )
    return Columns(text_a, text_b, column)


class _Reader:
    """Reads one file as examples and reports what looks wrong in it."""

    def __init__(self, processor: TableProcessor, part: str, path: str) -> None:
        self._processor = processor
        self._part = part
        self._split = split = processor.split(part)
        self._table = table = tables.Table(path, header=split.header)
        self._text_a, self._text_b, self._label = find_columns(table, split, part)
        label = None if part == "test" else self._label
        self._needed = tables.cells_needed([self._text_a, self._text_b, label])
        self._width = split.width if table.header is None else len(table.header)
        self._skipped_lines: dict[str, list[int]] = collections.defaultdict(list)  # by reason
        self._long_lines: list[int] = []
        self._surrogate_lines: list[int] = []

    def read(self) -> list[examples.InputExample]:
        self._check_header()
        found = list(filter(None, map(self._example, self._table)))
        self._report(len(found))
        return found

    def _example(self, row: tables.Row) -> examples.InputExample | None:
        table, split = self._table, self._split
        if self._processor.skips_row(self._part, table, row, self._needed):
            self._skipped_lines["with too few columns"].append(row.line)
            return None
        if self._table.format != "json":
            self._width = self._width or len(row.fields)
            if len(row.fields) > self._width:
                self._long_lines.append(row.line)
        if split.language_column is not None:
            language = table.cell(row, split.language_column)
            if language != self._processor.language:
                return None
        label = self._parse_label(row)
        if label is not None and label == self._processor.spec.skipped_label:
            self._skipped_lines[f"labelled {label!r}"].append(row.line)
            return None
        column = split.guid_column
        name = row.line - 1 if column is None else table.cell(row, column)
        text_b = None if self._text_b is None else self._text(row, self._text_b)
        return examples.InputExample(
            f"{split.guid}-{name}", self._text(row, self._text_a), text_b, label
        )

    def _text(self, row: tables.Row, column: tables.Column) -> str:
        text = self._table.cell(row, column)
        # Only JSON can contain surrogates. They would make the whole word [UNK].
        if self._table.format != "json" or not _SURROGATE.search(text):
            return text
        if row.line not in self._surrogate_lines[-1:]:
            self._surrogate_lines.append(row.line)
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)

    def _parse_label(self, row: tables.Row) -> str | list[str] | None:
        if self._label is None:
            return None
        is_test = self._part == "test"
        if is_test and not self._table.has_cell(row, self._label):
            return None
        is_multi_label = self._processor.kind == examples.MULTI_LABEL
        try:
            text = self._table.cell(row, self._label, lists=is_multi_label)
            if text and text == self._processor.spec.skipped_label:
                return None if is_test else text
            return self._processor.parse_label(text)
        except ValueError as error:
            if is_test:
                return None  # a placeholder such as -1
            if isinstance(error, errors.UserError):  # about the cell itself
                raise
            hint = self._processor.label_hint
            raise self._table.cell_error(row, self._label, error, hint) from None

    def _check_header(self) -> None:
        """Warns if the first line is read as the header but looks like something else."""
        table, split = self._table, self._split
        header = table.header
        if header is None:
            return
        if len(header) < self._needed:
            raise table.short_row_error(tables.Row(1, header), self._needed)
        if tables.column_number(split.text_a) is None:
            return  # the columns were found by name, so it is a header
        for column, name in zip((self._text_a, self._text_b), split.names, strict=False):
            if isinstance(column, int) and header[column].lower() != name.lower():
                warning = (
                    "%s:1: taken as the header, but column %d is %s, not %r; is it a row of data, "
                    "or the file of another task?"
                )
                _log.warning(warning, table.path, column, tables.excerpt(header[column]), name)
                return
        if self._has_valid_label(header) or _is_number(header[0]):
            text = tables.excerpt("\t".join(header))
            warning = "%s:1: taken as the header, but it looks like a row of data: %s"
            _log.warning(warning, table.path, text)

    def _has_valid_label(self, header: Sequence[str]) -> bool:
        if self._label is None or not self._table.has_cell(tables.Row(1, header), self._label):
            return False
        try:
            return bool(self._processor.parse_label(header[int(self._label)]))
        except ValueError:
            return False

    def _report(self, count: int) -> None:
        path, header = self._table.path, self._table.header
        for reason, lines in self._skipped_lines.items():
            warning = "%s: left out %d rows %s (%s)"
            _log.warning(warning, path, len(lines), reason, _format_lines(lines))
        if lines := self._surrogate_lines:
            warning = (
                "%s: %d rows have half of a surrogate pair, such as \\ud83d alone, in a text; it "
                "is not a character and is ignored (%s)"
            )
            _log.warning(warning, path, len(lines), _format_lines(lines))
        if lines := self._long_lines:
            warning = (
                "%s: %d rows have more columns than the %d %s (%s); does a text contain a tab or "
                "comma that shifts the other columns?"
            )
            width = (self._width, "expected" if header is None else "of the header")
            _log.warning(warning, path, len(lines), *width, _format_lines(lines))
        if not count:
            has_languages = self._split.language_column is not None
            language = f" of language {self._processor.language!r}" if has_languages else ""
            raise errors.UserError(f"{path} has no rows{language} for the {self._part} set")
        skipped = ", skipped 1 header" if header is not None else ""
        _log.info("read %d rows from %s%s", count, path, skipped)


def _is_number(text: str) -> bool:
    try:
        examples.regression_value(text)
    except ValueError:
        return False
    return True


def _format_lines(lines: Sequence[int]) -> str:
    more = ", …" if len(lines) > 3 else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:3]))}{more}"
