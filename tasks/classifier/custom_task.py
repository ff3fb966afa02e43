"""The task ``custom``: anyone's own tables, whose columns and labels are told by flags."""

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
        columns = {
            "text_a_column": text_a_column,
            "text_b_column": text_b_column,
            "label_column": label_column,
        }
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
        if has_header == "false":
            _check_no_header(columns, [path for split in splits.values() for path in split.files])
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
                    "checkpoint, can replace it; a model of numbers needs --regression instead"
                )
            self._found = self._find_labels(self.spec.train)
        return list(self.spec.labels or self._found)

    def _find_labels(self, train: examples.Split) -> tuple[str, ...]:
        counts: collections.Counter[str] = collections.Counter()
        firsts: collections.Counter[str] = collections.Counter()  # in the first lines of files
        rows = 0
        for path in train.files:
            for labels, is_first in self._labels_in(path, train):
                counts.update(labels)
                firsts.update(labels if is_first else ())
                rows += 1
        _warn(counts, firsts, rows)
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
        needed = tables.needed(columns)
        is_set = self.kind == examples.MULTI_LABEL
        may_be_header = table.kind != "json"  # where it has a header, no row is in line 1
        for row in table:
            if self.leaves_out("train", table, row, needed):
                continue
            text = table.cell(row, columns.label, lists=is_set)
            try:
                labels = table_processor.label_set(text) if is_set else [text.strip()]
                for label in labels:
                    _check_found(label)
            except ValueError as error:
                cure = "correct it, or is it the right --label_column?"
                raise table.wrong(row, columns.label, error, cure) from None
            yield labels, may_be_header and row.line == 1


def _check_found(label: str) -> None:
    if not label:
        raise ValueError("the label is empty")
    flaw = label_files.invalid_label_reason(label)
    if flaw:
        raise ValueError(f"label {tables.shown(label)} {flaw}")


def _warn(counts: collections.Counter[str], firsts: collections.Counter[str], rows: int) -> None:
    """Points at labels that look like something else.

    Args:
      counts: label -> rows that have it.
      firsts: label -> files whose first line has it.
      rows: of all files.
    """
    if rows > 20 and len(counts) > rows / 2:
        _log.warning(
            "found %d labels in %d rows; is it the right --label_column? (numbers need "
            "--regression)",
            len(counts),
            rows,
        )
        return
    alone = [label for label, count in firsts.items() if counts[label] == count]
    others = [count for label, count in counts.items() if label not in alone]
    # In a small table a label may well be there once; but then it is rarely the only such one.
    if alone and (rows > 20 or min(others, default=0) > 1):
        _log.warning(
            "label %s stands in line 1 only; if that is a header, give --has_header=true",
            tables.shown(alone[0]),
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
    for label in labels:
        flaw = label_files.invalid_label_reason(label)
        if flaw:
            raise errors.FlagError(f"--labels: {tables.shown(label)} {flaw}")
    repeated = sorted({label for label in labels if list(labels).count(label) > 1})
    if repeated:
        raise errors.FlagError(f"--labels: {', '.join(repeated)} is there twice")
    if len(labels) == 1 and kind == examples.CLASSIFICATION:
        raise errors.FlagError(
            f"--labels={labels[0]}: expected two or more labels, comma separated, or a file with "
            "one a line (there is no file of this name with two)"
        )


def _has_header(has_header: str, columns: Mapping[str, tables.Column]) -> bool:
    if has_header not in ("auto", "true", "false"):
        raise errors.FlagError(f"--has_header={has_header}: expected auto, true or false")
    return bool(_named(columns)) if has_header == "auto" else has_header == "true"


def _named(columns: Mapping[str, tables.Column]) -> list[str]:
    """The flags that give a column by its name."""
    return [
        flag
        for flag, column in columns.items()
        if column != "" and tables.as_number(column) is None
    ]


def _check_no_header(columns: Mapping[str, tables.Column], files: Sequence[str]) -> None:
    """Refuses names of columns where --has_header=false; JSON lines have keys in any case."""
    named = _named(columns)
    if named and any(tables.kind_of(path) != "json" for path in files):
        raise errors.FlagError(
            f"--has_header=false contradicts --{named[0]}={columns[named[0]]}, which is the name "
            "of a column; give its number, from 0, or leave --has_header out"
        )
