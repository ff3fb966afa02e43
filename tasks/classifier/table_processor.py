"""Reads the rows of tables as examples, with checks of columns, labels and headers.

Rows to predict are never left out, because that would shift the predictions. Rows that are left out
of other sets, or look wrong, are counted and reported once per file.
"""

import collections
import functools
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tokenization
from command_line import errors
from system import inputs
from tasks.classifier import examples, tables

_log = logging.getLogger(__name__)

# The original files of MRPC, with which GLUE's download script leaves a user.
MRPC_FILES = ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")

_BLANK = "without content"  # a reason to leave rows out

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
        for name in (*names, *self._hub_names(names)):
            for path in (os.path.join(data_dir, name), os.path.join(data_dir, f"{name}.gz")):
                if inputs.is_file(path):
                    return [path]
        folder = os.path.join(data_dir, self.spec.directory)
        hint = "check --data_dir"
        if os.path.isdir(folder):
            hint = f"did you mean --data_dir={folder}?"
        if self.spec.hub_texts:
            names.append(f"{names[0].removesuffix('.tsv')}.jsonl")
        raise errors.UserError(
            f"no {' or '.join(names)} in {data_dir}, but --task_name={self.spec.name} reads it; "
            f"{hint}"
        )

    def _hub_names(self, names: Sequence[str]) -> Iterator[str]:
        """The names that files have which were saved from the Hugging Face hub."""
        stems = [name.removesuffix(".tsv") for name in names if name.endswith(".tsv")]
        if not self.spec.hub_texts:
            return
        if self.spec.name == "ax":
            stems.append("test")
        for stem in stems:
            for other in dict.fromkeys((stem, stem.replace("dev", "validation"))):
                for ending in ("jsonl", "json", "parquet"):
                    yield f"{other}.{ending}"
                yield f"{other}-00000-of-00001.parquet"

    def layout(self, part: str, path: str) -> examples.Split:
        """The columns of a file of "train", "dev" or "test": GLUE's, or those of the hub."""
        split = self.split(part)
        if not self.spec.hub_texts or not tables.has_keys(path):
            return split
        text_a, *rest = self.spec.hub_texts
        text_b = rest[0] if rest else None
        return examples.Split(split.files, text_a, text_b, "label", guid=split.guid)

    def skip_reason(self, part: str, table: tables.Table, row: tables.Row, needed: int) -> str:
        """Why a row is left out of a set; empty if it is not.

        Raises:
          errors.UserError: it is blank or has too few columns, but must not be left out.
        """
        if row.is_blank and part == "test":
            raise errors.UserError(
                f"{table.path}:{row.line}: a blank line between others; the predictions would not "
                "be those of the lines beside them: delete it, or write a row"
            )
        if row.is_blank:
            return _BLANK
        if not table.is_short(row, needed):
            return ""
        if part != "test" and not any(map(str.strip, row.fields)):  # spaces or tabs alone
            return _BLANK
        if part == "train" and self.skip_bad_rows:
            return "with too few columns"
        cure = "; --skip_bad_rows leaves such rows out of training" if part == "train" else ""
        raise table.short_row_error(row, needed, cure)

    def rows(self, part: str, table: tables.Table) -> Iterator[tables.Row]:
        """The rows of a table that are of a set.

        The original training file of MRPC holds the dev set, too. GLUE's dev_ids.tsv lists it.

        Raises:
          errors.UserError: the list is missing, or is not about this file.
        """
        name = os.path.basename(table.path).removesuffix(".gz")
        if self.spec.name != "mrpc" or name != MRPC_FILES[0]:
            return iter(table)
        return self._mrpc_rows(part, table)

    def _mrpc_rows(self, part: str, table: tables.Table) -> Iterator[tables.Row]:
        path = os.path.join(os.path.dirname(table.path), "dev_ids.tsv")
        if not inputs.is_file(path):
            raise errors.UserError(
                f"{path} is missing; GLUE's dev set of MRPC is the rows of {MRPC_FILES[0]} whose "
                "two ids it lists"
            )
        listed = {tuple(row.fields)[:2] for row in tables.Table(path, False) if not row.is_blank}
        missing = set(listed)
        for row in table:
            ids = tuple(row.fields)[1:3]
            missing.discard(ids)
            if (ids in listed) == (part == "dev"):
                yield row
        if missing or not listed:
            such = " ".join(map(str, min(missing, default=())))[:40]
            raise errors.UserError(
                f"{path}: {len(missing)} of {len(listed)} pairs of ids ({such!r}) are not in "
                f"{MRPC_FILES[0]}; expected GLUE's list of MRPC's dev set"
            )

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
    label: tables.Column | tuple[tables.Column, ...] | None


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
    if isinstance(label, tuple):
        if part == "test" and header is not None and not set(label) <= set(header):
            return Columns(text_a, text_b, None)
        columns = tuple(table.column(name, "--label_column") for name in label)
        return Columns(text_a, text_b, columns)
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
        self._split = split = processor.layout(part, path)
        self._table = table = tables.Table(path, header=split.header)
        self._text_a, self._text_b, self._label = find_columns(table, split, part)
        labels = () if part == "test" else self._label
        columns = (self._text_a, self._text_b, *(labels if isinstance(labels, tuple) else [labels]))
        self._needed = tables.cells_needed(columns)
        self._width = split.width if table.header is None else len(table.header)
        self._skipped_lines: dict[str, list[int]] = collections.defaultdict(list)  # by reason
        if table.header_line > 1:
            self._skipped_lines[_BLANK] += range(1, table.header_line)
        self._long_lines: list[int] = []
        self._surrogate_lines: list[int] = []
        self._empty_lines: list[int] = []

    def read(self) -> list[examples.InputExample]:
        self._check_header()
        rows = self._processor.rows(self._part, self._table)
        found = list(filter(None, map(self._example, rows)))
        self._report(len(found))
        return found

    def _example(self, row: tables.Row) -> examples.InputExample | None:
        table, split = self._table, self._split
        if reason := self._processor.skip_reason(self._part, table, row, self._needed):
            self._skipped_lines[reason].append(row.line)
            return None
        if not table.has_keys:
            self._width = self._width or len(row.fields)
            if len(row.fields) > self._width:
                self._long_lines.append(row.line)
        if split.language_column is not None:
            language = table.cell(row, split.language_column)
            if language != self._processor.language:
                return None
        label = self._parse_label(row)
        if label is not None and label == self._processor.spec.skipped_label:
            assert self._label is not None and not isinstance(self._label, tuple)
            text = table.cell(row, self._label)  # on the hub -1
            self._skipped_lines[f"labelled {text!r}"].append(row.line)
            return None
        column = split.guid_column
        name = row.line - 1 if column is None else table.cell(row, column)
        text_a = self._text(row, self._text_a)
        text_b = None
        if self._text_b is not None:
            text_b = "" if table.is_null(row, self._text_b) else self._text(row, self._text_b)
        texts = (text_a,) if text_b is None else (text_a, text_b)
        if not all(map(tokenization.has_text, texts)):
            self._empty_lines.append(row.line)
        return examples.InputExample(f"{split.guid}-{name}", text_a, text_b, label)

    def _text(self, row: tables.Row, column: tables.Column) -> str:
        text = self._table.cell(row, column)
        # Only JSON can contain surrogates. They would make the whole word [UNK].
        if not self._table.has_keys or not _SURROGATE.search(text):
            return text
        if row.line not in self._surrogate_lines[-1:]:
            self._surrogate_lines.append(row.line)
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)

    def _parse_label(self, row: tables.Row) -> str | list[str] | None:
        if self._label is None:
            return None
        if isinstance(self._label, tuple):
            return self._parse_label_columns(row)
        is_test = self._part == "test"
        if is_test and not self._table.has_cell(row, self._label):
            return None
        is_multi_label = self._processor.kind == examples.MULTI_LABEL
        try:
            text = self._table.cell(row, self._label, lists=is_multi_label)
            if self._table.has_keys:
                text = self._processor.spec.hub_labels.get(text, text)
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

    def _parse_label_columns(self, row: tables.Row) -> list[str] | None:
        """The labels whose columns have a 1."""
        assert isinstance(self._label, tuple)
        if self._part == "test":
            return None
        found = []
        for label, column in zip(self._processor.get_labels(), self._label, strict=True):
            text = self._table.cell(row, column).strip().lower()
            if text in ("1", "1.0", "true"):
                found.append(label)
            elif text not in ("0", "0.0", "false"):
                problem = f"{tables.excerpt(text)} is not 0 or 1"
                cure = "is it one of the --label_column of --multi_label?"
                raise self._table.cell_error(row, column, problem, cure)
        return found

    def _check_header(self) -> None:
        """Warns if the first line is read as the header but looks like something else."""
        table, split = self._table, self._split
        header = table.header
        if header is None:
            return
        if len(header) < self._needed:
            raise table.short_row_error(tables.Row(table.header_line, header), self._needed)
        if tables.column_number(split.text_a) is None:
            return  # the columns were found by name, so it is a header
        for column, name in zip((self._text_a, self._text_b), split.names, strict=False):
            if isinstance(column, int) and header[column].lower() != name.lower():
                warning = (
                    "%s:%d: taken as the header, but column %d is %s, not %r; is it a row of "
                    "data, or the file of another task?"
                )
                found = tables.excerpt(header[column])
                _log.warning(warning, table.path, table.header_line, column, found, name)
                return
        if self._has_valid_label(header) or _is_number(header[0]):
            text = tables.excerpt("\t".join(header))
            warning = "%s:%d: taken as the header, but it looks like a row of data: %s"
            _log.warning(warning, table.path, table.header_line, text)

    def _has_valid_label(self, header: Sequence[str]) -> bool:
        if self._label is None or isinstance(self._label, tuple):
            return False
        if not self._table.has_cell(tables.Row(self._table.header_line, header), self._label):
            return False
        try:
            return bool(self._processor.parse_label(header[int(self._label)]))
        except ValueError:
            return False

    def _report(self, count: int) -> None:
        path, header = self._table.path, self._table.header
        for reason, lines in self._skipped_lines.items():
            rows = f"{len(lines)} row{'s' * (len(lines) > 1)} {reason}"
            _log.warning("%s: left out %s (%s)", path, rows, _format_lines(lines))
        if lines := self._empty_lines:
            pair = "" if self._text_b is None else ", or of a pair one"
            warning = "%s: %d of %d rows have no text%s (%s)"
            _log.warning(warning, path, len(lines), count, pair, _format_lines(lines))
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
