"""The task ``custom``: anyone's own tables, whose columns and labels are told by flags."""

from __future__ import annotations

import collections
import logging
from collections.abc import Sequence

import errors
import inputs
from tasks import examples, table_processor, tables

_log = logging.getLogger(__name__)


class CustomProcessor(table_processor.TableProcessor):
    """Reads tab separated files, CSV and JSON lines.

    Args:
      train_file, dev_file, test_file: paths or patterns, comma separated; empty: there is no such
        set.
      text_a_column, text_b_column, label_column: name in the header (or JSON key) or number from
        0; empty: not given. Test files need no labels.
      has_header: "true", "false", or "auto": there is one if any column is given by name.
      labels: in the order of the model's outputs; empty: those in the training files, sorted.
      regression: the label is a number.
      multi_label: the label is any number of labels, comma separated or a JSON list.
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
        has_header: str = "auto",
        labels: Sequence[str] = (),
        regression: bool = False,
        multi_label: bool = False,
        skip_bad_rows: bool = False,
    ) -> None:
        kind = _kind(regression, multi_label)
        _check_labels(labels, kind)
        needed = {"text_a_column": text_a_column}
        if train_file or dev_file:
            needed["label_column"] = label_column
        for flag, column in needed.items():
            if column == "":
                raise errors.FlagError(
                    f"--{flag} is missing; give the name of a column or its number, from 0"
                )
        columns = (text_a_column, text_b_column, label_column)
        header = _has_header(has_header, columns)
        files = {"train": train_file, "dev": dev_file, "test": test_file}
        splits = {
            part: examples.Split(
                tuple(inputs.expand(f"{part}_file", patterns)),
                text_a_column,
                None if text_b_column == "" else text_b_column,
                None if label_column == "" else label_column,
                header=header,
                guid=part,
            )
            for part, patterns in files.items()
            if patterns
        }
        sets = splits.get("train"), splits.get("dev"), splits.get("test")
        spec = examples.TaskSpec("custom", "", tuple(labels), (), *sets, kind=kind)
        super().__init__(spec, skip_bad_rows=skip_bad_rows)
        self._found: tuple[str, ...] = ()

    def files(self, part: str, data_dir: str = "") -> list[str]:
        """The files of "train", "dev" or "test", wherever they lie."""
        return list(self.split(part).files)

    def split(self, part: str) -> examples.Split:
        found = getattr(self.spec, part)
        if found is None:
            raise errors.FlagError(f"--{part}_file is missing; --task_name=custom needs it")
        return found

    def get_labels(self) -> list[str]:
        """The labels given, or those found in the training files, sorted."""
        if self.kind == examples.REGRESSION:
            return []
        if not self.spec.labels and not self._found:
            if self.spec.train is None:
                raise errors.FlagError(
                    "--labels is missing; only a --train_file, or a labels.txt beside the "
                    "checkpoint, can replace it"
                )
            self._found = self._find_labels(self.spec.train)
        return list(self.spec.labels or self._found)

    def _find_labels(self, train: examples.Split) -> tuple[str, ...]:
        assert train.label is not None
        counts: collections.Counter[str] = collections.Counter()
        first_line = ""  # the label there, of files without header
        rows = 0
        is_set = self.kind == examples.MULTI_LABEL
        for path in train.files:
            table = tables.Table(path, header=train.header)
            column = table.column(train.label, "--label_column")
            for row in table:
                if not table.has(row, column):
                    continue  # the reader of examples judges it
                text = table.cell(row, column, lists=is_set)
                counts.update(table_processor.label_set(text) if is_set else [text.strip()])
                rows += 1
                if rows == 1 and table.header is None and table.kind != "json":
                    first_line = text
        self._warn(counts, rows, first_line)
        found = tuple(sorted(counts))
        where = ", ".join(train.files)
        if "" in found:
            raise errors.UserError(
                f"{where}: {counts['']} rows have an empty label; fill them in, or is it the "
                "right --label_column?"
            )
        broken = next((label for label in found if "\n" in label), None)
        if broken is not None:
            raise errors.UserError(
                f"{where}: the label {tables.shown(broken)} has a line break; labels are written "
                "one a line, so give it another name"
            )
        if len(found) < (1 if is_set else 2):
            raise errors.UserError(
                f"{where}: found the labels {list(found)} only; expected two or more (is it the "
                "right --label_column? numbers need --regression)"
            )
        _log.info("found %d labels in %s: %s", len(found), where, ", ".join(found)[:500])
        return found

    def _warn(self, counts: collections.Counter[str], rows: int, first_line: str) -> None:
        if rows > 20 and len(counts) > rows / 2:
            _log.warning(
                "found %d labels in %d rows; is it the right --label_column? (numbers need "
                "--regression)",
                len(counts),
                rows,
            )
        elif first_line and counts[first_line] == 1 and rows > 20:
            _log.warning(
                "label %s stands in line 1 only; if that is a header, give --has_header=true",
                tables.shown(first_line),
            )


def _kind(regression: bool, multi_label: bool) -> str:
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
    repeated = sorted({label for label in labels if list(labels).count(label) > 1})
    if repeated:
        raise errors.FlagError(f"--labels: {', '.join(repeated)} is there twice")
    if len(labels) == 1 and kind == examples.CLASSIFICATION:
        raise errors.FlagError(
            f"--labels={labels[0]}: expected two or more labels, comma separated, or a file with "
            "one a line (there is no file of this name with two)"
        )


def _has_header(has_header: str, columns: Sequence[tables.Column]) -> bool:
    if has_header not in ("auto", "true", "false"):
        raise errors.FlagError(f"--has_header={has_header}: expected auto, true or false")
    named = any(column != "" and tables.as_number(column) is None for column in columns)
    return named if has_header == "auto" else has_header == "true"
