"""labels.txt, which runs keep beside their checkpoints. Needs no TensorFlow."""

import json
import os
from collections.abc import Sequence

from system import atomic_files

LABELS_FILE = "labels.txt"


def write_labels(directory: str, labels: Sequence[str]) -> None:
    """Writes labels.txt, one label a line; nothing where there are no labels."""
    if labels:
        text = "".join(f"{label}\n" for label in labels)
        atomic_files.write_text(os.path.join(directory, LABELS_FILE), text)


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
