"""The task ``custom``: tables of the user, with columns and labels given by flags."""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterator, Mapping, Sequence

from command_line import errors
from system import inputs
from tasks.classifier import examples, table_processor, tables
from training import label_files

_log = logging.getLogger(__name__)


class CustomProcessor(table_processor.TableProcessor):
    """Reads tab separated files, CSV and JSON lines.

    Args:
      train_file, dev_file, test_file: paths or patterns, comma separated; empty: no such set.
      text_a_column, text_b_column, label_column: name in the header (or JSON key) or number from
        0; empty: not given. Test files need no labels.
      has_header: whether line 1 names the columns; None: if a column is given by name.
      labels: in the order of the model's outputs; empty: those in the training files, sorted.
      regression: whether the label is a number.
      multi_label: whether a row has any number of labels, comma separated or as a JSON list.
      skip_bad_rows: see TableProcessor.

    Raises:
      errors.FlagError: flags are missing or contradict each other.
      errors.UserError: a file is missing.
    """

    label_hint = "is this a header line (--has_header), or the right --label_column?"

    def __init__(
        self,
        *,
        train_file: str = "",
        dev_file: str = "",
        test_file: str = "",
        text_a_column: tables.Column = "",
        text_b_column: tables.Column = "",
        label_column: tables.Column = "",
        has_header: bool | None = None,
        labels: Sequence[str] = (),
        regression: bool = False,
        multi_label: bool = False,
        skip_bad_rows: bool = False,
    ) -> None:
        kind = _task_kind(regression, multi_label)
        _check_labels(labels, kind)
        columns = {
            "text_a_column": text_a_column,
            "text_b_column": text_b_column,
            "label_column": label_column,
        }
        _require_columns(columns, needs_label=bool(train_file or dev_file))
        named = _named_columns(columns)
        header = bool(named) if has_header is None else has_header
        patterns = {"train": train_file, "dev": dev_file, "test": test_file}
        splits = {
            part: examples.Split(
                tuple(inputs.expand(f"{part}_file", pattern)),
                text_a_column,
                None if text_b_column == "" else text_b_column,
                None if label_column == "" else label_column,
                header=header,
                guid=part,
            )
            for part, pattern in patterns.items()
            if pattern
        }
        files = [path for split in splits.values() for path in split.files]
        # JSON lines have keys, with or without a header.
        if named and not header and any(tables.format_of(path) != "json" for path in files):
            raise errors.FlagError(
                f"--has_header=false contradicts --{named[0]}={columns[named[0]]}, which is the "
                "name of a column; give its number, from 0, or leave --has_header out"
            )
        sets = splits.get("train"), splits.get("dev"), splits.get("test")
        spec = examples.TaskSpec("custom", "", tuple(labels), (), *sets, kind=kind)
        super().__init__(spec, skip_bad_rows=skip_bad_rows)
        self._found_labels: tuple[str, ...] = ()

    def files(self, part: str, data_dir: str = "") -> list[str]:
        """The files of "train", "dev" or "test"; ``data_dir`` is ignored."""
        return list(self.split(part).files)

    def split(self, part: str) -> examples.Split:
        split = getattr(self.spec, part)
        if split is None:
            raise errors.FlagError(f"--{part}_file is missing; --task_name=custom needs it")
        return split

    def get_labels(self) -> list[str]:
        """The labels given, or those found in the training files, sorted."""
        if self.kind == examples.REGRESSION:
            return []
        if not self.spec.labels and not self._found_labels:
            if self.spec.train is None:
                raise errors.FlagError(
                    "--labels is missing; only a --train_file, or a labels.txt beside the "
                    "checkpoint, can replace it; a model of numbers needs --regression instead"
                )
            self._found_labels = self._find_labels(self.spec.train)
        return list(self.spec.labels or self._found_labels)

    def _find_labels(self, train: examples.Split) -> tuple[str, ...]:
        counts: collections.Counter[str] = collections.Counter()
        first_line_counts: collections.Counter[str] = collections.Counter()
        rows = 0
        for path in train.files:
            for labels, is_first in self._labels_in(path, train):
                counts.update(labels)
                first_line_counts.update(labels if is_first else ())
                rows += 1
        _warn_about_labels(counts, first_line_counts, rows)
        found = tuple(sorted(counts))
        where = ", ".join(train.files)
        if len(found) < (1 if self.kind == examples.MULTI_LABEL else 2):
            raise errors.UserError(
                f"{where}: found the labels {list(found)} only; expected two or more (is it the "
                "right --label_column? numbers need --regression)"
            )
        _log.info("found %d labels in %s: %s", len(found), where, ", ".join(found)[:500])
        return found

    def _labels_in(self, path: str, train: examples.Split) -> Iterator[tuple[list[str], bool]]:
        """The labels of each row, and whether it is the first line of a file without header."""
        table = tables.Table(path, header=train.header)
        columns = table_processor.find_columns(table, train, "train")
        assert columns.label is not None
        width = tables.cells_needed(columns)
        is_multi_label = self.kind == examples.MULTI_LABEL
        may_be_header = table.format != "json"  # a row in line 1 means that no header was read
        for row in table:
            if self.skips_row("train", table, row, width):
                continue
            text = table.cell(row, columns.label, lists=is_multi_label)
            try:
                labels = table_processor.parse_label_set(text) if is_multi_label else [text.strip()]
                for label in labels:
                    _check_label(label)
            except ValueError as error:
                cure = "correct it, or is it the right --label_column?"
                raise table.cell_error(row, columns.label, error, cure) from None
            yield labels, may_be_header and row.line == 1


def _check_label(label: str) -> None:
    if not label:
        raise ValueError("the label is empty")
    reason = label_files.invalid_label_reason(label)
    if reason:
        raise ValueError(f"label {tables.excerpt(label)} {reason}")


def _warn_about_labels(
    counts: collections.Counter[str], first_line_counts: collections.Counter[str], rows: int
) -> None:
    """Warns if labels look like texts, numbers or the name of a column.

    Args:
      counts: label -> number of rows with it.
      first_line_counts: label -> number of files with it in the first line.
      rows: number of rows of all files.
    """
    if rows > 20 and len(counts) > rows / 2:
        _log.warning(
            "found %d labels in %d rows; is it the right --label_column? (numbers need "
            "--regression)",
            len(counts),
            rows,
        )
        return
    suspects = [label for label, count in first_line_counts.items() if counts[label] == count]
    others = [count for label, count in counts.items() if label not in suspects]
    # In a small table a real label may occur once, but then it is rarely the only such label.
    if suspects and (rows > 20 or min(others, default=0) > 1):
        _log.warning(
            "label %s is in line 1 only; if that is a header, give --has_header=true",
            tables.excerpt(suspects[0]),
        )


def _task_kind(regression: bool, multi_label: bool) -> str:
    if regression and multi_label:
        raise errors.FlagError("--regression and --multi_label exclude each other; give one")
    if regression:
        return examples.REGRESSION
    return examples.MULTI_LABEL if multi_label else examples.CLASSIFICATION


def _check_labels(labels: Sequence[str], kind: str) -> None:
    if labels and kind == examples.REGRESSION:
        raise errors.FlagError("--labels does not fit --regression, whose labels are numbers")
    if "" in labels:
        raise errors.FlagError("--labels: a label is empty; give labels separated by commas")
    for label in labels:
        reason = label_files.invalid_label_reason(label)
        if reason:
            raise errors.FlagError(f"--labels: {tables.excerpt(label)} {reason}")
    repeated = sorted({label for label in labels if list(labels).count(label) > 1})
    if repeated:
        raise errors.FlagError(f"--labels: {', '.join(repeated)} is listed twice")
    if len(labels) == 1 and kind == examples.CLASSIFICATION:
        raise errors.FlagError(
            f"--labels={labels[0]}: expected two or more labels, comma separated, or a file with "
            "one label per line (there is no file of this name with two)"
        )


def _require_columns(columns: Mapping[str, tables.Column], needs_label: bool) -> None:
    for flag in ("text_a_column", *(["label_column"] if needs_label else [])):
        if columns[flag] == "":
            raise errors.FlagError(
                f"--{flag} is missing; give the name of a column or its number, from 0"
            )


def _named_columns(columns: Mapping[str, tables.Column]) -> list[str]:
    """The flags that give a column by name."""
    return [
        flag
        for flag, column in columns.items()
        if column != "" and tables.column_number(column) is None
    ]
