"""The sets of a classifier run: which files they come from, their examples and labels."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from checkpoints import config_files, file_names
from command_line import errors
from system import inputs, json_files, outputs
from tasks.classifier import custom_task, glue_tasks, metrics, table_processor
from tasks.classifier import examples as task_examples
from tasks.classifier import features as classifier_features
from tasks.classifier import options as classifier_options
from training import fine_tuning_flags, label_files

_log = logging.getLogger(__name__)

_TABLE_ENDINGS = (".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".txt")

_Sets = dict[str, list[task_examples.InputExample]]


def read(*groups: Any) -> "ClassifierData":
    """Checks the flags of run_classifier, and reads the sets that the run needs.

    Args:
      *groups: as in ``fine_tuning_flags.FineTuningFlags``.

    Raises:
      errors.FlagError: flags that contradict each other, or the files.
      errors.UserError: files, rows or examples that are no good.
    """
    flags = fine_tuning_flags.FineTuningFlags(*groups)
    task = flags.task
    flags.check()
    if task.also_tasks and not (task.do_eval or task.do_predict):
        raise errors.FlagError("--also_tasks does nothing without --do_eval or --do_predict")
    is_custom = glue_tasks.canonical_name(task.task_name) == "custom"
    files = _custom_files(flags) if is_custom else {}
    for flag, reason in files.items():
        if not getattr(task, flag):
            raise errors.FlagError(
                f"--{flag} is missing; {reason} with --task_name=custom needs it"
            )
    data = ClassifierData(task, _directories_of_labels(flags))
    if data.name == "custom":  # and no processor of that name
        for flag in files:
            paths = inputs.expand(flag, getattr(task, flag))
            written = classifier_options.OUTPUT_FILES
            outputs.check_data(flags.run.output_dir, flag, paths, written)
    data.read(flags.tuning.do_train, bool(flags.run.eval_steps))
    return data


def _custom_files(flags: fine_tuning_flags.FineTuningFlags) -> dict[str, str]:
    """The flags of the files that the run reads, each with the flag that makes it do so."""
    task = flags.task
    reasons = (
        ("train_file", "--do_train", flags.tuning.do_train),
        ("dev_file", "--eval_steps", flags.run.eval_steps),
        ("dev_file", "--do_eval", task.do_eval),
        ("test_file", "--do_predict", task.do_predict),
    )
    return {flag: reason for flag, reason, is_given in reasons if is_given}


def _directories_of_labels(flags: fine_tuning_flags.FineTuningFlags) -> list[str]:
    """Where labels.txt lies that belongs to the checkpoint of a run without training."""
    run = flags.run
    has_own = os.path.exists(os.path.join(run.output_dir, "checkpoint"))
    used = run.named_checkpoint or (run.output_dir if has_own else flags.model.init_checkpoint)
    return file_names.run_directories([used])


class ClassifierData:
    """The task's labels and examples.

    Args:
      task: the flags.
      trained: directories of checkpoints. The first labels.txt in them serves a custom task that
        has neither --labels nor training rows.

    Attributes:
      name: of the task.
      labels: in the order of the model's outputs; none for regression.
      positive: index of the label that F1 is about.
      f1_label: that label, where the results must say so: not in GLUE's tasks, which define it.
      kind: "classification", "regression" or "multi_label".
      metrics: names, the deciding one first.
      examples: by set: "train", and those of ``devs`` and ``tests``.
      devs, tests: the sets to evaluate and to predict, each by the name of its results file.

    Raises:
      errors.FlagError: flags that do not fit the task.
      errors.UserError: a processor of one's own that says of itself what cannot be.
    """

    def __init__(self, task: classifier_options.ClassifierOptions, trained: Sequence[str] = ()):
        self._task = task
        self.name = glue_tasks.canonical_name(task.task_name)
        if self.name != "custom" and not task.data_dir:
            raise errors.FlagError(f"--data_dir is missing; --task_name={task.task_name} needs it")
        _check_language(task, self.name)
        flags = _with_saved_labels(task, trained) if self.name == "custom" else task
        self._processor = glue_tasks.create_processor(task.task_name, flags)
        self.kind = self._processor.kind
        self.labels = _labels_of(self._processor, task.task_name)
        self.metrics = _metrics_of(self._processor, task.task_name)
        has_f1, is_own = "f1" in self.metrics, self.name not in glue_tasks.TASKS
        is_own = is_own or self.name in glue_tasks.PROCESSORS
        self.positive = _positive_index(task, self.labels, has_f1=has_f1, is_own=is_own)
        self.f1_label = self.labels[self.positive] if has_f1 and is_own else ""
        self.examples: _Sets = {}
        self.devs: list[str] = []
        self.tests: list[str] = []

    @property
    def signature(self) -> str:
        """What the outputs of a model mean; a checkpoint fits runs of the same signature."""
        if not self.labels:
            return "regression"
        several = "multi-label " if self.kind == task_examples.MULTI_LABEL else ""
        return f"{several}labels {label_files.label_signature(self.labels)}"

    def read(self, do_train: bool, eval_steps: bool) -> None:
        """Reads all sets that the run needs, so that every mistake in them shows first.

        Raises:
          errors.UserError: files, rows or examples that are no good.
          errors.FlagError: a set whose flag is missing.
        """
        task, folder = self._task, self._task.data_dir
        if do_train:
            self.examples["train"] = self._processor.get_train_examples(folder)
        others = _other_tasks(task, self.labels, self.kind)
        if task.do_eval or eval_steps:
            devs = {"eval_results": self._processor.get_dev_examples(folder)}
            devs |= _other_sets("dev", others, self._processor, folder) if task.do_eval else {}
            self.devs = list(devs)
            self.examples |= devs
        if task.do_predict:
            tests = _test_sets(self._processor, folder)
            more = _other_sets("test", others, self._processor, folder)
            for name in tests.keys() & more.keys():
                raise errors.FlagError(
                    f"--test_file and --also_tasks: both results would be in {name}.tsv; give the "
                    "file another name"
                )
            tests |= more
            self.tests = list(tests)
            self.examples |= tests
        if self.devs and self.f1_label:
            _log.info("eval_f1 is that of the label %r (--positive_label)", self.f1_label)
        for part in self.examples:
            self._check(part)

    def _check(self, part: str) -> None:
        """Finds what a processor of one's own may do wrong; tables are checked row by row."""
        given, about = self.examples[part], f"--task_name={self._task.task_name}"
        if not isinstance(given, Iterable):
            raise errors.UserError(
                f"{about}: the examples for {part} are {given!r}; expected a list of InputExample"
            )
        found = self.examples[part] = list(given)
        for other in found:
            if not all(hasattr(other, name) for name in ("guid", "text_a", "text_b", "label")):
                raise errors.UserError(
                    f"{about}: {other!r} is among the examples for {part}; expected InputExample"
                )
        if not found:
            raise errors.UserError(f"{about}: no examples for {part}")
        labelled = part not in self.tests
        classifier_features.check(found, self.labels, self.kind, labelled=labelled)


def _check_language(task: classifier_options.ClassifierOptions, name: str) -> None:
    """Refuses --xnli_language where no set of XNLI is read."""
    names = (name, *_also_tasks(task))
    is_given = task.xnli_language != classifier_options.ClassifierOptions.xnli_language
    if is_given and "xnli" not in names:
        raise errors.FlagError(
            f"--xnli_language={task.xnli_language} belongs to --task_name=xnli, not to "
            f"{task.task_name}"
        )


def _also_tasks(task: classifier_options.ClassifierOptions) -> dict[str, str]:
    """The names in --also_tasks, as they are given, by their canonical names."""
    names = filter(None, map(str.strip, task.also_tasks.split(",")))
    return {glue_tasks.canonical_name(name, "also_tasks"): name for name in names}


def _labels_of(processor: task_examples.DataProcessor, task_name: str) -> list[str]:
    """The labels of a processor, which may be numbers; none for regression."""
    about = f"--task_name={task_name}: {type(processor).__name__}"
    if processor.kind not in task_examples.KINDS:
        raise errors.UserError(
            f"{about}.kind is {processor.kind!r}; expected one of {', '.join(task_examples.KINDS)}"
        )
    if processor.kind == task_examples.REGRESSION:
        return []
    about += ".get_labels()"
    given = processor.get_labels()
    if not isinstance(given, Collection) or isinstance(given, str):
        raise errors.UserError(f"{about} gives {given!r}; expected a list of labels")
    labels = [str(label) for label in given]
    if not labels:
        raise errors.UserError(
            f"{about} gives no labels; only a processor of kind regression may have none"
        )
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise errors.UserError(f"{about} gives {label!r} twice; give each label once")
        if flaw := label_files.invalid_label_reason(label):
            raise errors.UserError(f"{about} gives {label!r}, which {flaw}")
    return labels


def _metrics_of(processor: task_examples.DataProcessor, task_name: str) -> tuple[str, ...]:
    """The names of a processor's metrics, the deciding one first."""
    known = metrics.BY_KIND[processor.kind]
    names = task_examples.metrics_of(processor)
    if isinstance(names, str) or not set(names) <= set(known):
        raise errors.UserError(
            f"--task_name={task_name}: {type(processor).__name__}.metrics is {names!r}; expected "
            f"a tuple with some of {', '.join(known)}, for kind {processor.kind}"
        )
    return tuple(names)


def _positive_index(
    task: classifier_options.ClassifierOptions,
    labels: Sequence[str],
    *,
    has_f1: bool,
    is_own: bool,
) -> int:
    """The index of the label that F1 is about: --positive_label, or else the second one.

    Raises:
      errors.FlagError: it is not a label, or the task has no F1, or one that GLUE defines.
    """
    label = task.positive_label
    if not label:
        return min(1, len(labels) - 1)
    if has_f1 and not is_own:
        raise errors.FlagError(
            f"--positive_label={label}: eval_f1 of {task.task_name} is about {labels[1]!r}, as "
            "GLUE defines it; leave the flag out"
        )
    if not has_f1:
        raise errors.FlagError(
            f"--positive_label={label} does nothing: it is about eval_f1 of a task with two labels"
        )
    if label not in labels:
        raise errors.FlagError(
            f"--positive_label={label}: the labels are {errors.some(labels)}"
            f"{errors.suggest(label, list(labels))}"
        )
    return labels.index(label)


def _with_saved_labels(
    task: classifier_options.ClassifierOptions, trained: Sequence[str]
) -> classifier_options.ClassifierOptions:
    """The flags with the labels that lie beside the checkpoint, where they name no labels."""
    if task.labels or task.train_file or task.regression:
        return task
    for directory in trained:
        path = os.path.join(directory, label_files.LABELS_FILE)
        if os.path.isfile(path):
            labels = ", ".join(custom_task.read_labels(path))
            _log.info("labels of %s: %s", path, labels[:500])
            return dataclasses.replace(task, labels=path)
        path = os.path.join(directory, "config.json")
        names = config_files.label_names(json_files.read_object(path) or {})
        if names and not any("," in name for name in names):
            _log.info("labels of %s: %s", path, ", ".join(names)[:500])
            return dataclasses.replace(task, labels=",".join(names))
    return task


def _other_tasks(
    task: classifier_options.ClassifierOptions, labels: Sequence[str], kind: str
) -> dict[str, task_examples.DataProcessor]:
    """The tasks that --also_tasks names, which must have the labels and the kind of the task."""
    only_language = classifier_options.ClassifierOptions(xnli_language=task.xnli_language)
    found = {}
    for canonical, name in _also_tasks(task).items():
        if canonical == "custom" and canonical not in glue_tasks.PROCESSORS:
            raise errors.FlagError(
                "--also_tasks=custom: a table of your own cannot be among them; evaluate or "
                "predict it by a run of --task_name=custom with this model as --init_checkpoint"
            )
        other = glue_tasks.create_processor(name, only_language)
        theirs = _labels_of(other, name)
        if theirs != labels or other.kind != kind:
            raise errors.FlagError(
                f"--also_tasks={name}: its labels ({', '.join(theirs) or other.kind}) are not "
                f"those of --task_name={task.task_name} ({', '.join(labels) or kind})"
            )
        found[canonical] = other
    return found


def _test_sets(processor: task_examples.DataProcessor, folder: str) -> _Sets:
    """The examples to predict, by the name of the results file without its ending."""
    if not isinstance(processor, table_processor.TableProcessor):
        return {"test_results": processor.get_test_examples(folder)}
    paths = processor.files("test", folder)
    if len(paths) == 1:
        return {"test_results": processor.read("test", paths[0])}
    names = [f"test_results-{_stem(path)}" for path in paths]
    for name in names:
        outputs.check_name("test_file", f"{name}.tsv")
        same = [path for path, other in zip(paths, names, strict=True) if other == name]
        if len(same) > 1:
            raise errors.FlagError(
                f"--test_file: the results of {', '.join(same)} would all be in {name}.tsv; give "
                "the files different names"
            )
    return {name: processor.read("test", path) for name, path in zip(names, paths, strict=True)}


def _stem(path: str) -> str:
    """A file's name without the endings that tables have: ``v1.0`` of ``v1.0.tsv.gz``."""
    name = os.path.basename(path)
    if name.lower().endswith(".gz"):
        name = name[: -len(".gz")]
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in _TABLE_ENDINGS else name


def _other_sets(
    part: str,
    others: Mapping[str, task_examples.DataProcessor],
    processor: task_examples.DataProcessor,
    folder: str,
) -> _Sets:
    """The "dev" or "test" sets of other tasks, as far as they have one."""
    prefix = {"dev": "eval", "test": "test"}[part]
    found = {}
    for name, other in others.items():
        if isinstance(other, table_processor.TableProcessor) and getattr(other.spec, part) is None:
            continue
        read = other.get_dev_examples if part == "dev" else other.get_test_examples
        found[f"{prefix}_results-{name}"] = read(_folder_of(other, processor, folder))
    return found


def _folder_of(
    other: task_examples.DataProcessor, processor: task_examples.DataProcessor, folder: str
) -> str:
    """Where the files of another task lie: beside the task's folder under their own name, or in it.

    Files of all tasks have the same names, so the task's own folder comes first only where both
    tasks share it in the usual download, as those of MNLI do.
    """
    if not isinstance(other, table_processor.TableProcessor):
        return folder
    own = getattr(getattr(processor, "spec", None), "directory", None)
    if other.spec.directory != own:
        with contextlib.suppress(errors.UserError):
            return glue_tasks.find_directory(os.path.dirname(os.path.abspath(folder)), other.spec)
    return folder
