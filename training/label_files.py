"""labels.txt, which runs keep beside their checkpoints. Needs no TensorFlow."""

import json
import os
from collections.abc import Sequence

from command_line import errors
from system import atomic_files, inputs

LABELS_FILE = "labels.txt"


def write_labels(directory: str, labels: Sequence[str]) -> None:
    """Writes labels.txt, one label a line; nothing where there are no labels."""
    if labels:
        text = "".join(f"{label}\n" for label in labels)
        atomic_files.write_text(os.path.join(directory, LABELS_FILE), text)


def read_labels(path: str) -> list[str]:
    """The lines of a file of labels, of which some may be empty.

    Raises:
      errors.UserError: it is not UTF-8 text.
    """
    try:
        text = inputs.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise errors.UserError(
            f"{path}: not UTF-8 text; expected a file of labels, one label per line"
        ) from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def label_signature(labels: Sequence[str]) -> str:
    """Labels as one text, which no other labels have."""
    if any(", " in label for label in labels):
        return json.dumps(list(labels))
    return ", ".join(labels)


def invalid_label_reason(label: str) -> str:
    """Why a label cannot be a line of labels.txt, which is UTF-8 text; empty if it can."""
    if "\n" in label:
        return "has a line break, but labels are written one a line"
    if label.startswith("\ufeff"):
        return "begins with a byte order mark, which files of labels do not keep"
    try:
        label.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is no character"
    return ""
