"""The tasks by name: a table of GLUE, XNLI and SNLI, "custom", and the processors of users.

Users register a processor of their own in one line,
``glue_tasks.PROCESSORS["my_task"] = MyProcessor``.
"""

import dataclasses
import os
from collections.abc import Callable

from command_line import errors
from tasks.classifier import custom_task, examples, table_processor
from tasks.classifier import options as classifier_options

_NO_FLAGS = classifier_options.ClassifierOptions()


def _splits(
    train: examples.Split, text_a: int, text_b: int | None = None
) -> tuple[examples.Split, examples.Split, examples.Split]:
    """The sets of most tasks. dev.tsv is like train.tsv; test.tsv has a header and no labels, and
    its texts are in the columns ``text_a`` and ``text_b``."""
    test = dataclasses.replace(
        train,
        files=("test.tsv",),
        text_a=text_a,
        text_b=text_b,
        label=None,
        header=True,
        guid="test",
    )
    return train, dataclasses.replace(train, files=("dev.tsv",), guid="dev"), test


_TRAIN = ("train.tsv",)
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")

# Labels on the hub. -1 is what test sets have, and rows without agreement.
_HUB_NLI = {"0": "entailment", "1": "neutral", "2": "contradiction", "-1": "-"}
_HUB_ENTAILMENT = {"0": "entailment", "1": "not_entailment"}


def _hub_binary(negative: str, positive: str) -> dict[str, str]:
    return {negative: "0", positive: "1"}


_MNLI_TRAIN = examples.Split(_TRAIN, 8, 9, -1, guid_column=0, names=_SENTENCES)
_XNLI_DEV = examples.Split(
    ("xnli.dev.tsv", "XNLI-1.0/xnli.dev.tsv"), 6, 7, 1, guid="dev", language_column=0,
    names=_SENTENCES,
)  # fmt: skip
_SNLI_TRAIN = examples.Split(
    ("train.tsv", "snli_1.0_train.txt"), "sentence1", "sentence2", "gold_label"
)  # fmt: skip


def _mnli(name: str, part: str, submission: str, test_rows: int) -> examples.TaskSpec:
    dev = dataclasses.replace(_MNLI_TRAIN, files=(f"dev_{part}.tsv",), guid=f"dev_{part}")
    test = dataclasses.replace(dev, files=(f"test_{part}.tsv",), guid="test", label=None)
    return examples.TaskSpec(
        name, "MNLI", _NLI, ("accuracy",), _MNLI_TRAIN, dev, test,
        submission=submission, test_rows=test_rows, skipped_label="-",
        hub_texts=("premise", "hypothesis"), hub_labels=_HUB_NLI,
    )  # fmt: skip


def _mrpc_splits() -> tuple[examples.Split, examples.Split, examples.Split]:
    """The sets of MRPC, from GLUE's files, or else from the original ones."""
    train, dev, test = _splits(
        examples.Split(_TRAIN, 3, 4, 0, names=("#1 String", "#2 String")), 3, 4
    )
    raw_train, raw_test = table_processor.MRPC_FILES
    return (
        dataclasses.replace(train, files=(*train.files, raw_train)),
        dataclasses.replace(dev, files=(*dev.files, raw_train)),
        dataclasses.replace(test, files=(*test.files, raw_test)),
    )


def _pairs(name: str, directory: str, labels: tuple[str, ...], test_rows: int) -> examples.TaskSpec:
    """A task whose files have the columns index, two texts, label."""
    texts = ("question", "sentence") if name == "qnli" else _SENTENCES
    return examples.TaskSpec(
        name, directory, labels, ("accuracy",),
        *_splits(examples.Split(_TRAIN, 1, 2, 3, names=texts), 1, 2),
        submission=f"{directory}.tsv", test_rows=test_rows, hub_texts=texts,
        hub_labels=(
            _HUB_ENTAILMENT if labels is _ENTAILMENT
            else _hub_binary("not_entailment", "entailment")
        ),
    )  # fmt: skip


# Columns, label orders, metrics and file names are those of GLUE, and those of the original release
# for its tasks. The deciding metric is the one in table 1 of the BERT paper.
TASKS: dict[str, examples.TaskSpec] = {
    spec.name: spec
    for spec in (
        examples.TaskSpec(
            "cola", "CoLA", _BINARY, ("matthews", "accuracy"),
            *_splits(
                examples.Split(_TRAIN, 3, None, 1, header=False, names=("sentence",), width=4), 1
            ),
            submission="CoLA.tsv", test_rows=1063, hub_texts=("sentence",),
            hub_labels=_hub_binary("unacceptable", "acceptable"),
        ),
        examples.TaskSpec(
            "sst-2", "SST-2", _BINARY, ("accuracy",),
            *_splits(examples.Split(_TRAIN, 0, None, 1, names=("sentence",)), 1),
            submission="SST-2.tsv", test_rows=1821, hub_texts=("sentence",),
            hub_labels=_hub_binary("negative", "positive"),
        ),
        examples.TaskSpec(
            "mrpc", "MRPC", _BINARY, ("f1", "accuracy"),
            *_mrpc_splits(), submission="MRPC.tsv", test_rows=1725, hub_texts=_SENTENCES,
            hub_labels=_hub_binary("not_equivalent", "equivalent"),
        ),
        examples.TaskSpec(
            "sts-b", "STS-B", (), ("spearman", "pearson"),
            *_splits(examples.Split(_TRAIN, 7, 8, 9, names=_SENTENCES), 7, 8),
            kind=examples.REGRESSION, submission="STS-B.tsv", test_rows=1379,
            hub_texts=_SENTENCES,
        ),
        examples.TaskSpec(
            "qqp", "QQP", _BINARY, ("f1", "accuracy"),
            *_splits(
                examples.Split(_TRAIN, 3, 4, 5, guid_column=0, names=_QUESTIONS), 1, 2
            ),
            submission="QQP.tsv", test_rows=390965, skip_bad_rows=True, hub_texts=_QUESTIONS,
            hub_labels=_hub_binary("not_duplicate", "duplicate"),
        ),
        _mnli("mnli", "matched", "MNLI-m.tsv", 9796),
        _mnli("mnli-mm", "mismatched", "MNLI-mm.tsv", 9847),
        _pairs("qnli", "QNLI", _ENTAILMENT, 5463),
        _pairs("rte", "RTE", _ENTAILMENT, 3000),
        _pairs("wnli", "WNLI", _BINARY, 146),
        examples.TaskSpec(
            "ax", "AX", _NLI, ("matthews",),
            test=examples.Split(("diagnostic.tsv", "AX.tsv"), 1, 2, guid="test", names=_SENTENCES),
            submission="AX.tsv", test_rows=1104, other_directories=("diagnostic",),
            hub_texts=("premise", "hypothesis"), hub_labels=_HUB_NLI,
        ),
        examples.TaskSpec(
            "xnli", "XNLI", _NLI, ("accuracy",),
            train=examples.Split(
                (
                    "multinli/multinli.train.{language}.tsv",
                    "XNLI-MT-1.0/multinli/multinli.train.{language}.tsv",
                ),
                0, 1, 2, names=("premise", "hypo"),
            ),
            dev=_XNLI_DEV,
            test=dataclasses.replace(
                _XNLI_DEV, files=("xnli.test.tsv", "XNLI-1.0/xnli.test.tsv"), guid="test"
            ),
            renamed={"contradictory": "contradiction"},
        ),
        examples.TaskSpec(
            "snli", "SNLI", _NLI, ("accuracy",),
            train=_SNLI_TRAIN,
            dev=dataclasses.replace(
                _SNLI_TRAIN, files=("dev.tsv", "snli_1.0_dev.txt"), guid="dev"
            ),
            test=dataclasses.replace(
                _SNLI_TRAIN, files=("test.tsv", "snli_1.0_test.txt"), guid="test"
            ),
            skipped_label="-", hub_texts=("premise", "hypothesis"), hub_labels=_HUB_NLI,
        ),
    )
}  # fmt: skip

_ALIASES = {
    "sst": "sst-2", "sts": "sts-b", "diagnostic": "ax", "mnlim": "mnli", "mnlimatched": "mnli",
    "mnlimismatched": "mnli-mm", **{name.replace("-", ""): name for name in TASKS},
}  # fmt: skip


XNLI_LANGUAGES = (
    "ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh",
)  # fmt: skip

# Processors of users: name -> class or other callable that makes one. They take precedence over
# tasks of the same name in the table.
PROCESSORS: dict[str, Callable[[], examples.DataProcessor]] = {}


def canonical_name(task_name: str, flag: str = "task_name") -> str:
    """The canonical spelling of a task's name: ``sst-2`` for ``SST2``, ``sst_2`` and ``sst-2``.

    Args:
      task_name: a key of PROCESSORS or TASKS, or "custom"; case, ``-`` and ``_`` are ignored.
      flag: the flag that gives the name, for messages.

    Raises:
      errors.FlagError: there is no such task.
    """
    lowered = task_name.lower()
    known = [*PROCESSORS, *TASKS, "custom"]
    for name in known:
        if name.lower() == lowered:
            return name
    letters = lowered.replace("-", "").replace("_", "")
    if letters in _ALIASES:
        return _ALIASES[letters]
    raise errors.FlagError(
        f"Task not found: --{flag}={task_name}{errors.suggest(lowered, known)}; "
        f"known are {', '.join(known)}"
    )


def find_directory(glue_dir: str, spec: examples.TaskSpec) -> str:
    """The folder of a task in a GLUE download, or in a copy of the Hugging Face hub's.

    Raises:
      errors.UserError: it does not exist.
    """
    names = [spec.directory, *spec.other_directories]
    if spec.hub_texts:  # cola, sst2, stsb …
        names.append(spec.directory.lower().replace("-", ""))
    for name in names:
        path = os.path.join(glue_dir, name)
        if os.path.isdir(path):
            return path
    raise errors.UserError(f"no folder {' or '.join(names)} in {glue_dir}, for task {spec.name}")


def create_processor(
    task_name: str, flags: classifier_options.ClassifierOptions = _NO_FLAGS
) -> examples.DataProcessor:
    """Makes the processor of a task.

    Args:
      task_name: see ``canonical_name``.
      flags: xnli_language, skip_bad_rows, and for "custom" where its data is.

    Raises:
      errors.FlagError: there is no such task, or a flag does not fit it.
    """
    name = canonical_name(task_name)
    if name == "custom" and name not in PROCESSORS:
        return custom_task.CustomProcessor(flags)
    given = [
        f"--{flag}"
        for flag in classifier_options.CUSTOM_FLAGS
        if getattr(flags, flag) != getattr(_NO_FLAGS, flag)
    ]
    if given:
        raise errors.FlagError(
            f"{', '.join(given)} belongs to --task_name=custom, not to {task_name}"
        )
    if name in PROCESSORS:
        return PROCESSORS[name]()
    language = flags.xnli_language
    if language not in XNLI_LANGUAGES:
        raise errors.FlagError(
            f"--xnli_language={language}: expected one of {', '.join(XNLI_LANGUAGES)}"
        )
    return table_processor.TableProcessor(
        TASKS[name], language=language, skip_bad_rows=flags.skip_bad_rows
    )


class _TaskProcessor(table_processor.TableProcessor):
    task_name: str

    def __init__(self) -> None:
        super().__init__(TASKS[self.task_name])


# The processors of the original release, for programs that subclass or call them.


class MrpcProcessor(_TaskProcessor):
    """Microsoft Research Paraphrase Corpus"""

    task_name = "mrpc"


class ColaProcessor(_TaskProcessor):
    """Corpus of Linguistic Acceptability"""

    task_name = "cola"


class MnliProcessor(_TaskProcessor):
    """MultiNLI with the matched dev and test sets"""

    task_name = "mnli"


class XnliProcessor(_TaskProcessor):
    """XNLI; ``language`` is "zh" unless it is set to another code."""

    task_name = "xnli"
