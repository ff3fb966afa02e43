"""Fine-tunes BERT on single texts or pairs: GLUE, XNLI, SNLI, or a table of your own.

    python run_classifier.py --task_name=MRPC --data_dir=glue_data/MRPC --do_train --do_eval \\
        --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=mrpc

Training goes on from the newest checkpoint in --output_dir. --do_eval writes eval_results.txt,
--do_predict test_results.tsv with a line for each test row: the probabilities of the labels in the
order of labels.txt, or the number of a regression.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import command_line
import errors
import inputs
import options
import outputs
from tasks import examples as task_examples
from tasks import glue

# The names of the original release, for processors written against it.
from tasks.examples import DataProcessor, InputExample, InputFeatures, PaddingInputExample

if TYPE_CHECKING:
    import numpy as np

    import modeling
    import tokenization
    import training
    from batching import FeatureBatches as Batches
    from tasks import classification

__all__ = ["DataProcessor", "InputExample", "InputFeatures", "PaddingInputExample", "main"]

_log = logging.getLogger(__name__)

Sets = dict[str, list[InputExample]]


def classify(
    task: options.ClassifierOptions,
    text: options.TokenizerOptions,
    model: options.ModelOptions,
    tuning: options.FineTuningOptions,
    optimizer: options.OptimizerOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> None:
    """Trains, evaluates, predicts and exports as the flags say.

    Raises:
      errors.UserError: files that are missing or do not fit each other, a loss that is not finite.
      errors.FlagError: flags that do not fit each other.
    """
    _check_flags(task, tuning, run)
    data = _Data(task)
    data.read(tuning.do_train, bool(run.eval_steps))
    command_line.import_tensorflow()
    import devices
    import evaluation
    import fine_tuning
    import results_files
    import training

    device = options.resolve_device(device)
    config = fine_tuning.read_config(model, run.output_dir, task.max_seq_length)
    data.tokenizer = fine_tuning.create_tokenizer(text, config, model.init_checkpoint)
    data.lengths = fine_tuning.static_lengths(device, task.max_seq_length)
    strategy = devices.create_strategy(device)
    trainer = training.Trainer(
        lambda: _build_task(data, config, tuning, run, device),
        strategy=strategy,
        run=run,
        device=device,
        init_checkpoint=model.init_checkpoint,
        kind=data.outputs,
        notes={"attention": config.attention},
        length_flag="--num_train_epochs",
        fresh=fine_tuning.new_scopes(tuning, ("output_",)),
    )
    evaluation.check(run)
    if tuning.do_train:
        schedule = fine_tuning.create_schedule(optimizer, tuning, len(data.examples["train"]))
        parts = optimizer.gradient_accumulation_steps
        trainer.prepare_training(schedule, tuning.train_batch_size, parts)
    else:
        trainer.use(evaluation.chosen(run)[-1])
    if trainer.is_chief:
        groups = [task, text, model, tuning, optimizer, run, device]
        described = devices.describe(strategy)
        results_files.write_run_description(
            run.output_dir, described, groups, config.to_json_string()
        )
        data.write_labels(run.output_dir)

    if tuning.do_train:
        batches = data.batches("train", tuning.train_batch_size, run.random_seed)
        best = training.Best(f"eval_{data.metrics[0]}", higher=True)
        if not trainer.train(batches, lambda: _results(trainer, data, "eval_results"), best):
            return
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", trainer.save_weights())
    if task.do_eval:
        evaluation.evaluate_each(
            trainer, run, lambda: {name: _results(trainer, data, name) for name in data.devs}
        )
    if task.do_predict or task.do_export:
        trainer.use(evaluation.chosen(run)[-1])
    for name in data.tests:
        _predict(trainer, data, name, run.output_dir)
    if task.do_export and trainer.is_chief:
        _export(trainer, data, text, run.output_dir)


def _check_flags(
    task: options.ClassifierOptions, tuning: options.FineTuningOptions, run: options.RunOptions
) -> None:
    """Finds contradictions between flags that need no file."""
    if not (tuning.do_train or task.do_eval or task.do_predict or task.do_export):
        raise errors.FlagError(
            "nothing to do: give --do_train, --do_eval, --do_predict or --do_export"
        )
    if run.eval_steps and not tuning.do_train:
        raise errors.FlagError("--eval_steps does nothing without --do_train; add it")
    if task.also_tasks and not (task.do_eval or task.do_predict):
        raise errors.FlagError("--also_tasks does nothing without --do_eval or --do_predict")
    outputs.check_directory("output_dir", run.output_dir)


class _Data:
    """The task's examples, labels and features.

    Attributes:
      name: of the task.
      labels: in the order of the model's outputs; none for regression.
      kind: "classification", "regression" or "multi_label".
      metrics: names, the deciding one first.
      examples: by set: "train", and those of ``devs`` and ``tests``.
      devs, tests: the sets to evaluate and to predict, each by the name of its results file.
      tokenizer, lengths: set before the first batches are asked for.
    """

    tokenizer: tokenization.FullTokenizer
    lengths: Sequence[int]

    def __init__(self, task: options.ClassifierOptions):
        self._task = task
        self.name = glue.canonical_name(task.task_name)
        if self.name != "custom" and not task.data_dir:
            raise errors.FlagError(f"--data_dir is missing; --task_name={task.task_name} needs it")
        self._processor = _processor(task)
        self.labels = list(self._processor.get_labels())
        self.kind = self._processor.kind
        self.metrics = task_examples.metrics_of(self._processor)
        self.examples: dict[str, list[task_examples.InputExample]] = {}
        self.devs: list[str] = []
        self.tests: list[str] = []
        self._features: dict[str, dict[str, Any]] = {}

    @property
    def outputs(self) -> str:
        """What the outputs of a model mean: a checkpoint serves another run if that is the same."""
        return f"{self.kind} of {', '.join(self.labels)}" if self.labels else self.kind

    def read(self, do_train: bool, eval_steps: bool) -> None:
        """Reads all sets that the run needs, so that every mistake in them shows first."""
        task, folder = self._task, self._task.data_dir
        if do_train:
            self.examples["train"] = self._processor.get_train_examples(folder)
        others = _other_tasks(self._processor, task)
        if task.do_eval or eval_steps:
            devs = {"eval_results": self._processor.get_dev_examples(folder)}
            devs |= _other_sets("dev", others, folder) if task.do_eval else {}
            self.devs = list(devs)
            self.examples |= devs
        if task.do_predict:
            tests = _test_sets(self._processor, folder) | _other_sets("test", others, folder)
            self.tests = list(tests)
            self.examples |= tests
        for part, found in self.examples.items():
            if not found:
                raise errors.UserError(f"--task_name={task.task_name}: no examples for {part}")

    def batches(self, part: str, batch_size: int, seed: int | None = None) -> Batches:
        """Batches of a set: endless and shuffled with a seed, else each example once."""
        import batching
        from tasks import classifier_features

        if part not in self._features:
            found = classifier_features.encode(
                self.examples[part],
                self.labels,
                self._task.max_seq_length,
                self.tokenizer,
                self.kind,
                labelled=part not in self.tests,
            )
            self._features[part] = found._asdict()
        return batching.FeatureBatches(
            self._features[part], batch_size=batch_size, seed=seed, lengths=self.lengths
        )

    def labels_of(self, part: str) -> np.ndarray:
        """label_ids of a set whose batches were asked for."""
        return self._features[part]["label_ids"]

    def write_labels(self, directory: str) -> None:
        """Writes labels.txt, one a line."""
        import checkpoint_files

        if self.labels:
            text = "".join(f"{label}\n" for label in self.labels)
            checkpoint_files.write_text(os.path.join(directory, "labels.txt"), text)

    @property
    def eval_batch_size(self) -> int:
        return self._task.eval_batch_size

    @property
    def predict_batch_size(self) -> int:
        return self._task.predict_batch_size

    @property
    def max_seq_length(self) -> int:
        return self._task.max_seq_length


def _processor(task: options.ClassifierOptions) -> task_examples.DataProcessor:
    header = {None: "auto", True: "true", False: "false"}[task.has_header]
    return glue.create_processor(
        task.task_name,
        xnli_language=task.xnli_language,
        skip_bad_rows=task.skip_bad_rows,
        train_file=task.train_file,
        dev_file=task.dev_file,
        test_file=task.test_file,
        text_a_column=task.text_a_column,
        text_b_column=task.text_b_column,
        label_column=task.label_column,
        labels=_label_list(task.labels),
        has_header=header,
        regression=task.regression,
        multi_label=task.multi_label,
    )


def _label_list(flag: str) -> list[str]:
    """--labels: the labels themselves, or a file with one a line."""
    if os.path.isfile(flag):
        lines = [line.decode("utf-8-sig").strip() for line in inputs.read_lines(flag)]
        return [line for line in lines if line]
    return [label.strip() for label in flag.split(",") if label.strip()]


def _other_tasks(
    processor: task_examples.DataProcessor, task: options.ClassifierOptions
) -> dict[str, task_examples.DataProcessor]:
    """The tasks that --also_tasks names."""
    found = {}
    for name in filter(None, (name.strip() for name in task.also_tasks.split(","))):
        other = glue.create_processor(name, xnli_language=task.xnli_language)
        if other.get_labels() != processor.get_labels() or other.kind != processor.kind:
            raise errors.FlagError(
                f"--also_tasks={name}: its labels {', '.join(other.get_labels())} are not those "
                f"of --task_name={task.task_name}"
            )
        found[glue.canonical_name(name)] = other
    return found


def _test_sets(processor: task_examples.DataProcessor, folder: str) -> Sets:
    """The examples to predict, by the name of the results file without its ending."""
    if not isinstance(processor, glue.TableProcessor):
        return {"test_results": processor.get_test_examples(folder)}
    paths = processor.files("test", folder)
    if len(paths) == 1:
        return {"test_results": processor.read("test", paths[0])}
    stems = [os.path.basename(path).split(".")[0] for path in paths]
    if len(set(stems)) < len(stems):
        raise errors.FlagError(
            f"--test_file names several files called {', '.join(sorted(stems))}; the results are "
            "named after them, so give them different names"
        )
    pairs = zip(stems, paths, strict=True)
    return {f"test_results-{stem}": processor.read("test", path) for stem, path in pairs}


def _other_sets(part: str, others: Mapping[str, task_examples.DataProcessor], folder: str) -> Sets:
    """The "dev" or "test" sets of other tasks, as far as they have one."""
    prefix = {"dev": "eval", "test": "test"}[part]
    found = {}
    for name, other in others.items():
        if isinstance(other, glue.TableProcessor) and getattr(other.spec, part) is None:
            continue
        read = other.get_dev_examples if part == "dev" else other.get_test_examples
        found[f"{prefix}_results-{name}"] = read(_folder_of(other, part, folder))
    return found


def _folder_of(processor: task_examples.DataProcessor, part: str, folder: str) -> str:
    """Where the files of another task lie: in the same folder, or beside it under its own name."""
    if isinstance(processor, glue.TableProcessor):
        with contextlib.suppress(errors.UserError):
            processor.files(part, folder)
            return folder
        return glue.find_directory(os.path.dirname(os.path.abspath(folder)), processor.spec)
    return folder


def _build_task(
    data: _Data,
    config: modeling.BertConfig,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> classification.Classification:
    import devices
    import fine_tuning
    import heads
    from tasks import classification

    model = heads.ClassifierModel(
        config,
        len(data.labels) or 1,
        bilstm=tuning.head == "bilstm",
        compute_dtype=devices.COMPUTE_DTYPES[device.precision],
        static_shapes=device.static_shapes,
        seed=run.random_seed,
    )
    frozen = fine_tuning.frozen_scopes(tuning.freeze_layers, config)
    return classification.Classification(model, data.kind, frozen)


def _results(trainer: training.Trainer, data: _Data, name: str) -> dict[str, float]:
    """Loss and scores on a dev set."""
    from tasks import classification

    logits = _logits(trainer, data.batches(name, data.eval_batch_size))
    found = classification.results(logits, data.labels_of(name), data.kind, data.metrics)
    trainer.check_loss(found["loss"])
    return {**found, "global_step": trainer.step}


def _logits(trainer: training.Trainer, batches: Batches) -> np.ndarray:
    """float32 [N, L], in the order of the examples."""
    import batching

    task = cast("classification.Classification", trainer.task)
    parts = trainer.predict(batches, task.outputs)
    return batching.in_order(parts, batches.num_examples)["logits"]


def _predict(trainer: training.Trainer, data: _Data, name: str, directory: str) -> None:
    """Writes a line for each example of a test set."""
    import checkpoint_files
    from tasks import classification

    logits = _logits(trainer, data.batches(name, data.predict_batch_size))
    if not trainer.is_chief:
        return
    rows = classification.probabilities(logits, data.kind)
    path = os.path.join(directory, f"{name}.tsv")
    # str of a NumPy float32, as ever: the shortest digits that give it back.
    lines = ("\t".join(map(str, row)) for row in rows)
    checkpoint_files.write_text(path, "".join(f"{line}\n" for line in lines))
    _log.info("wrote %s: %d predictions", path, len(rows))


def _export(
    trainer: training.Trainer, data: _Data, text: options.TokenizerOptions, directory: str
) -> None:
    """Writes a SavedModel that takes ids, or texts."""
    import export

    path = os.path.join(directory, "export")
    task = cast("classification.Classification", trainer.task)
    export.save_classifier(path, task, data.labels, text, data.max_seq_length)
    _log.info("exported step %d to %s", trainer.step, path)


GROUPS = (
    options.ClassifierOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.FineTuningOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)


def main(argv: Sequence[str] | None = None) -> int:
    return command_line.run(classify, GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
