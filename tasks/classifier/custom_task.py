"""The task ``custom``: tables of the user, with columns and labels given by flags."""

import collections
import functools
import logging
import os
from collections.abc import Iterator, Sequence

from command_line import errors
from system import inputs
from tasks.classifier import examples, table_processor, tables
from tasks.classifier import options as classifier_options
from training import label_files

_log = logging.getLogger(__name__)

_COLUMN_FLAGS = ("text_a_column", "text_b_column", "label_column")


class CustomProcessor(table_processor.TableProcessor):
    """Reads tab separated files, CSV and JSON lines.

    Args:
      flags: where the sets, columns and labels are.

    Raises:
      errors.FlagError: flags are missing or contradict each other.
      errors.UserError: a file is missing.
    """

    label_hint = "is this a header line (--has_header), or the right --label_column?"

    def __init__(self, flags: classifier_options.ClassifierOptions) -> None:
        kind = _task_kind(flags)
        labels = _label_list(flags.labels)
        label_columns = _label_columns(flags, labels)
        labels = list(label_columns or labels)
        _check_labels(labels, kind)
        columns = {flag: getattr(flags, flag) for flag in _COLUMN_FLAGS}
        needs_label = flags.train_file or flags.dev_file
        for flag in ("text_a_column", "label_column") if needs_label else ("text_a_column",):
            if not columns[flag]:
                raise errors.FlagError(
                    f"--{flag} is missing; give the name of a column or its number, from 0"
                )
        named = [
            flag
            for flag, column in columns.items()
            if column and tables.column_number(column) is None
        ]
        header = bool(named) if flags.has_header is None else flags.has_header
        splits = {
            part: examples.Split(
                tuple(inputs.expand(f"{part}_file", pattern)),
                flags.text_a_column,
                flags.text_b_column or None,
                label_columns or flags.label_column or None,
                header=header,
                guid=part,
            )
            for part in ("train", "dev", "test")
            if (pattern := getattr(flags, f"{part}_file"))
        }
        files = [path for split in splits.values() for path in split.files]
        # JSON and Parquet have keys, with or without a header.
        if named and not header and not all(map(tables.has_keys, files)):
            raise errors.FlagError(
                f"--has_header=false contradicts --{named[0]}={columns[named[0]]}, which is the "
                "name of a column; give its number, from 0, or leave --has_header out"
            )
        sets = splits.get("train"), splits.get("dev"), splits.get("test")
        spec = examples.TaskSpec("custom", "", tuple(labels), (), *sets, kind=kind)
        super().__init__(spec, skip_bad_rows=flags.skip_bad_rows)

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
        return list(self.spec.labels or self._labels_found)

    @functools.cached_property
    def _labels_found(self) -> list[str]:
        train = self.spec.train
        if train is None:
            raise errors.FlagError(
                "--labels is missing; only a --train_file, or a labels.txt beside the "
                "checkpoint, can replace it; a model of numbers needs --regression instead"
            )
        counts: collections.Counter[str] = collections.Counter()
        first_line_counts: collections.Counter[str] = collections.Counter()
        rows = 0
        for path in train.files:
            for labels, is_first in self._labels_in(path, train):
                counts.update(labels)
                first_line_counts.update(labels if is_first else ())
                rows += 1
        where = ", ".join(train.files)
        if not rows:
            raise errors.UserError(f"{where} has no rows")
        _warn_about_labels(counts, first_line_counts, rows)
        found = sorted(counts)
        if len(found) < (1 if self.kind == examples.MULTI_LABEL else 2):
            raise errors.UserError(
                f"{where}: found the labels {found} only; expected two or more (is it the "
                "right --label_column? numbers need --regression)"
            )
        _log.info("found %d labels in %s: %s", len(found), where, ", ".join(found)[:500])
        return found

    def _labels_in(self, path: str, train: examples.Split) -> Iterator[tuple[list[str], bool]]:
        """The labels of each row, and whether it is the first line of a file without header."""
        table = tables.Table(path, header=train.header)
        columns = table_processor.find_columns(table, train, "train")
        assert columns.label is not None and not isinstance(columns.label, tuple)
        width = tables.cells_needed([columns.text_a, columns.text_b, columns.label])
        is_multi_label = self.kind == examples.MULTI_LABEL
        may_be_header = not table.has_keys  # a row in line 1 means that no header was read
        for row in table:
            if self.skip_reason("train", table, row, width):
                continue
            text = table.cell(row, columns.label, lists=is_multi_label)
            try:
                labels = table_processor.parse_label_set(text) if is_multi_label else [text.strip()]
                for label in labels:
                    if not label:
                        raise ValueError("the label is empty")
                    if reason := label_files.invalid_label_reason(label):
                        raise ValueError(f"label {tables.excerpt(label)} {reason}")
            except ValueError as error:
                cure = "correct it, or is it the right --label_column?"
                raise table.cell_error(row, columns.label, error, cure) from None
            yield labels, may_be_header and row.line == 1


def _warn_about_labels(
    counts: collections.Counter[str], first_line_counts: collections.Counter[str], rows: int
) -> None:
    """Warns if labels look like texts, numbers or the name of a column.

    Both counts are by label: rows with it, and files with it in the first line.
    """
    if rows > 20 and len(counts) > rows / 2:
        warning = (
            "found %d labels in %d rows; is it the right --label_column? (numbers need "
            "--regression)"
        )
        _log.warning(warning, len(counts), rows)
        return
    suspects = [label for label, count in first_line_counts.items() if counts[label] == count]
    others = [count for label, count in counts.items() if label not in suspects]
    # In a small table a real label may occur once, but then it is rarely the only such label.
    if suspects and (rows > 20 or min(others, default=0) > 1):
        warning = "label %s is in line 1 only; if that is a header, give --has_header=true"
        _log.warning(warning, tables.excerpt(suspects[0]))


def _label_list(flag: str) -> list[str]:
    """--labels: the labels themselves, or a file with one a line."""
    if os.path.isfile(flag):
        return read_labels(flag)
    return [label.strip() for label in flag.split(",") if label.strip()]


def read_labels(path: str) -> list[str]:
    """The labels in a file, one per line."""
    return [line.strip() for line in label_files.read_labels(path) if line.strip()]


def _label_columns(
    flags: classifier_options.ClassifierOptions, labels: Sequence[str]
) -> tuple[str, ...]:
    """The names of --label_column where --multi_label has a column for each label; else none.

    They are in the order of ``labels``, which --labels or an earlier run gives, if it does.
    """
    names = tuple(name.strip() for name in flags.label_column.split(",") if name.strip())
    if len(names) < 2 or not flags.multi_label:
        return ()
    about = f"--label_column={flags.label_column}"
    if repeated := [name for name in names if names.count(name) > 1]:
        raise errors.FlagError(f"{about} names {repeated[0]} twice; name each column once")
    for flag in ("text_a_column", "text_b_column"):
        if (name := getattr(flags, flag)) in names:
            raise errors.FlagError(f"{about}: {name} is also the --{flag}; give columns of labels")
    numbers = [name for name in names if tables.column_number(name) is not None]
    if numbers:
        raise errors.FlagError(
            f"{about}: {numbers[0]} is a number; give the columns of several labels by their "
            "names, which are the labels"
        )
    if labels and set(labels) != set(names):
        raise errors.FlagError(
            f"{about}: these columns are the labels, but the labels are {', '.join(labels)[:200]} "
            f"(--labels={flags.labels}); give the columns of just these labels"
        )
    return tuple(labels) or names


def _task_kind(flags: classifier_options.ClassifierOptions) -> str:
    if flags.regression and flags.multi_label:
        raise errors.FlagError("--regression and --multi_label exclude each other; give one")
    if flags.regression:
        return examples.REGRESSION
    return examples.MULTI_LABEL if flags.multi_label else examples.CLASSIFICATION


def _check_labels(labels: Sequence[str], kind: str) -> None:
    if labels and kind == examples.REGRESSION:
        raise errors.FlagError("--labels does not fit --regression, whose labels are numbers")
    for label in labels:
        if reason := label_files.invalid_label_reason(label):
            raise errors.FlagError(f"--labels: {tables.excerpt(label)} {reason}")
    repeated = sorted(label for label, count in collections.Counter(labels).items() if count > 1)
    if repeated:
        raise errors.FlagError(f"--labels: {', '.join(repeated)} is listed twice")
    if len(labels) == 1 and kind == examples.CLASSIFICATION:
        raise errors.FlagError(
            f"--labels={labels[0]}: expected two or more labels, comma separated, or a file with "
            "one label per line (there is no file of this name with two)"
        )
