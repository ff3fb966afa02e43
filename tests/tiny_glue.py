"""A GLUE folder of a few rows a task, in the official layouts, and a model's files beside it."""

from __future__ import annotations

import json
import pathlib

CONFIG = {
    "vocab_size": 12,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "blue", "green", "good", "bad")

_PAIR = ["index", "sentence1", "sentence2"]
_STS = ["index", "genre", "filename", "year", "old_index", "source1", "source2", *_PAIR[1:]]
_MNLI = ["index", "promptID", "pairID", "genre", "a", "b", "c", "d", *_PAIR[1:]]
_MRPC = ["#1 ID", "#2 ID", "#1 String", "#2 String"]
FOLDERS = {
    "cola": "CoLA", "sst-2": "SST-2", "mrpc": "MRPC", "sts-b": "STS-B", "qqp": "QQP",
    "mnli": "MNLI", "qnli": "QNLI", "rte": "RTE", "wnli": "WNLI",
}  # fmt: skip


def write_model(folder: pathlib.Path) -> list[str]:
    """Writes vocab.txt and config.json; returns the flags."""
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return [
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}",
    ]


def write_task(folder: pathlib.Path, task: str, rows: int = 12, test: bool = True) -> pathlib.Path:
    """Writes the files of a task below a GLUE folder; returns the task's folder.

    Two of three rows have the first label; in wnli all but one of three.
    """
    directory = folder / FOLDERS[task]
    directory.mkdir(parents=True)
    parts = {"train": rows, "dev": 6} | ({"test": 5} if test else {})
    for part, count in parts.items():
        names = [f"{part}.tsv"]
        if task == "mnli" and part != "train":
            names = [f"{part}_matched.tsv", f"{part}_mismatched.tsv"]
        for name in names:
            lines = _header(task, part) + [_row(task, part, index) for index in range(count)]
            (directory / name).write_text("".join("\t".join(line) + "\n" for line in lines))
    return directory


def write_ax(folder: pathlib.Path) -> None:
    (folder / "diagnostic").mkdir()
    lines = [_PAIR, *([str(i), "red blue", "green"] for i in range(4))]
    text = "".join("\t".join(line) + "\n" for line in lines)
    (folder / "diagnostic/diagnostic.tsv").write_text(text)


def write_all(folder: pathlib.Path) -> None:
    for task in FOLDERS:
        write_task(folder, task)
    write_ax(folder)


def _label(task: str, index: int) -> str:
    other = index % 3 == 2
    if task == "sts-b":
        return f"{index % 6}.000"
    if task == "mnli":
        return ("neutral", "entailment", "contradiction")[index % 3]
    if task in ("qnli", "rte"):
        return "not_entailment" if other else "entailment"
    return "01"[other]


def _header(task: str, part: str) -> list[list[str]]:
    test = part == "test"
    label = [] if test else ["label"]
    if task == "cola":
        return [["index", "sentence"]] if test else []
    if task == "sst-2":
        return [["index", "sentence"] if test else ["sentence", "label"]]
    if task == "mrpc":
        return [["index" if test else "Quality", *_MRPC]]
    if task == "sts-b":
        return [_STS + label]
    if task == "qqp":
        texts = ["question1", "question2"]
        return [["id", *texts] if test else ["id", "qid1", "qid2", *texts, "is_duplicate"]]
    if task == "mnli":
        return [_MNLI + label]
    return [(["index", "question", "sentence"] if task == "qnli" else _PAIR) + label]


def _row(task: str, part: str, index: int) -> list[str]:
    test, number = part == "test", str(index)
    label = [] if test else [_label(task, index)]
    one = "good red" if index % 3 < 2 else "bad blue"
    two = ("green", "red good", "blue")[index % 3]
    if task == "cola":
        return [number, one] if test else ["x", *label, "", one]
    if task == "sst-2":
        return [number, one] if test else [one, *label]
    if task == "mrpc":
        return [number if test else label[0], "1", "2", one, two]
    if task == "sts-b":
        return [number, "g", "f", "y", "0", "s", "s", one, two, *label]
    if task == "qqp":  # ids that are no row numbers
        return [str(10 + index), one, two] if test else [number, "1", "2", one, two, *label]
    if task == "mnli":
        return [number, "p", "q", "g", "a", "b", "c", "d", one, two, *label]
    return [number, one, two, *label]
