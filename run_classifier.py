"""Fine-tunes BERT on single texts or pairs: GLUE, XNLI, SNLI, or a table of your own.

    python run_classifier.py --task_name=MRPC --data_dir=glue_data/MRPC --do_train --do_eval \\
        --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=mrpc

Training goes on from the newest checkpoint in --output_dir. --do_eval writes eval_results.txt,
--do_predict test_results.tsv with a line for each test row: the probabilities of the labels in the
order of labels.txt, or the number of a regression.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from checkpoints import file_names
from command_line import app, errors, options
from system import atomic_files, inputs, outputs
from tasks.classifier import data as classifier_data
from tasks.classifier import glue_tasks
from tasks.classifier import options as classifier_options

# The names of the original release, for processors written against it.
from tasks.classifier.examples import (
    DataProcessor,
    InputExample,
    InputFeatures,
    PaddingInputExample,
)

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    import modeling
    from tasks.classifier import task as classifier_task
    from training import loop
    from training.batching import FeatureBatches as Batches

__all__ = ["DataProcessor", "InputExample", "InputFeatures", "PaddingInputExample", "main"]

_log = logging.getLogger(__name__)


def classify(
    task: classifier_options.ClassifierOptions,
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
    data = classifier_data.ClassifierData(task, _places_of_labels(model, run))
    if data.name == "custom":
        for flag in _parts(task, tuning, run):
            outputs.check_data(run.output_dir, flag, inputs.expand(flag, getattr(task, flag)))
    data.read(tuning.do_train, bool(run.eval_steps))
    app.import_tensorflow()
    from checkpoints import manager, restore
    from training import devices, evaluation, fine_tuning, loop, run_files

    evaluation.check(run, tuning.do_train)
    fine_tuning.warn_about_unused_flags(tuning, run)
    if task.do_export:
        from serving import export

        export.check_place(os.path.join(run.output_dir, "export"))
    device = options.resolve_device(device)
    evaluated = "" if tuning.do_train else run.named_checkpoint
    source = restore.starting_checkpoint(model.init_checkpoint, run.output_dir, evaluated)
    config = fine_tuning.read_config(model, task.max_seq_length, source)
    data.tokenizer = fine_tuning.create_tokenizer(text, config, model.init_checkpoint, source)
    data.lengths = fine_tuning.static_lengths(device, task.max_seq_length)
    strategy = devices.create_strategy(device)
    trainer = _create_trainer(data, config, strategy, model, tuning, run, device)
    if tuning.do_train:
        schedule = fine_tuning.create_schedule(optimizer, tuning, len(data.examples["train"]))
        parts = optimizer.gradient_accumulation_steps
        trainer.prepare_training(schedule, tuning.train_batch_size, parts)
    else:
        trainer.ensure_loaded(evaluation.chosen(run)[-1])

    def describe() -> None:
        groups = [task, text, model, tuning, optimizer, run, device]
        described = devices.describe(strategy)
        run_files.write_run_description(run.output_dir, described, groups, config.to_json_string())
        data.write_labels(run.output_dir)

    # What lies there belongs to the checkpoints there, and is theirs.
    if not tuning.do_train and trainer.is_chief and not manager.latest(run.output_dir):
        describe()

    if tuning.do_train:
        batches = data.batches("train", tuning.train_batch_size, run.random_seed)
        best = loop.BestMetric(data.metrics[0], higher=True)

        def evaluate() -> dict[str, float]:
            return _plain(_results(trainer, data, "eval_results", task.eval_batch_size))

        if not trainer.train(batches, evaluate, best, describe):
            return
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", trainer.save_weights())
    _use(trainer, data, task, text, run)


def _use(
    trainer: loop.Trainer,
    data: classifier_data.ClassifierData,
    task: classifier_options.ClassifierOptions,
    text: options.TokenizerOptions,
    run: options.RunOptions,
) -> None:
    """Evaluates, predicts and exports with the checkpoints that the flags name."""
    from training import evaluation

    def results() -> dict[str, dict[str, float]]:
        return {name: _results(trainer, data, name, task.eval_batch_size) for name in data.devs}

    if task.do_eval:
        evaluation.evaluate_each(trainer, run, results)
    if task.do_predict or task.do_export:
        trainer.ensure_loaded(evaluation.chosen(run)[-1])
    for name in data.tests:
        _predict(trainer, data, name, task.predict_batch_size, run.output_dir)
    if task.do_export and trainer.is_chief:
        _export(trainer, data, text, task.max_seq_length, run.output_dir)


def _places_of_labels(model: options.ModelOptions, run: options.RunOptions) -> list[str]:
    """Where labels.txt lies that belongs to the checkpoint of a run without training."""
    has_own = os.path.exists(os.path.join(run.output_dir, "checkpoint"))
    used = run.named_checkpoint or (run.output_dir if has_own else model.init_checkpoint)
    return file_names.run_directories([used])


def _create_trainer(
    data: classifier_data.ClassifierData,
    config: modeling.BertConfig,
    strategy: tf.distribute.Strategy,
    model: options.ModelOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> loop.Trainer:
    """Makes the trainer, after a look at the heads of the checkpoints that it will use."""
    from training import compatibility, fine_tuning, loop

    size = len(data.labels) or 1
    head = compatibility.Head(data.name, data.outputs, size, tuning.head, config.attention)
    compatibility.check(head, model, tuning, run)
    return loop.Trainer(
        lambda: _build_task(data, config, tuning, run, device),
        strategy=strategy,
        run=run,
        device=device,
        init_checkpoint=model.init_checkpoint,
        kind=head.outputs,
        notes={"attention": head.attention, "task": head.task},
        length_flag="--num_train_epochs",
        fresh=fine_tuning.new_scopes(tuning, ("output_",)),
    )


def _check_flags(
    task: classifier_options.ClassifierOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
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
    if run.eval_checkpoint == "all" and not task.do_eval:
        raise errors.FlagError("--eval_checkpoint=all does nothing without --do_eval; add it")
    if run.eval_checkpoint and not (task.do_eval or task.do_predict or task.do_export):
        raise errors.FlagError(
            f"--eval_checkpoint={run.eval_checkpoint} does nothing without --do_eval, "
            "--do_predict or --do_export; add one"
        )
    if glue_tasks.canonical_name(task.task_name) == "custom":
        _check_files(task, tuning, run)
    outputs.check_directory("output_dir", run.output_dir)


def _check_files(
    task: classifier_options.ClassifierOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
) -> None:
    """Demands the files of --task_name=custom that the run reads."""
    for flag, why in _parts(task, tuning, run).items():
        if not getattr(task, flag):
            raise errors.FlagError(f"--{flag} is missing; {why} with --task_name=custom needs it")


def _parts(
    task: classifier_options.ClassifierOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
) -> dict[str, str]:
    """The flags of the files that the run reads, each with the flag that makes it do so."""
    evaluates = "--do_eval" if task.do_eval else "--eval_steps" if run.eval_steps else ""
    wanted = {
        "train_file": "--do_train" if tuning.do_train else "",
        "dev_file": evaluates,
        "test_file": "--do_predict" if task.do_predict else "",
    }
    return {flag: why for flag, why in wanted.items() if why}


def _build_task(
    data: classifier_data.ClassifierData,
    config: modeling.BertConfig,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> classifier_task.Classification:
    import modeling
    from tasks.classifier import task as classifier_task
    from training import devices, fine_tuning

    encoder = modeling.BertModel(
        config,
        compute_dtype=devices.COMPUTE_DTYPES[device.precision],
        static_shapes=device.static_shapes,
        seed=run.random_seed,
    )
    bilstm = tuning.head == "bilstm"
    model = modeling.ClassifierModel(encoder, len(data.labels) or 1, bilstm=bilstm)
    frozen = fine_tuning.frozen_scopes(tuning.freeze_layers, encoder)
    return classifier_task.Classification(model, data.kind, frozen)


def _results(
    trainer: loop.Trainer, data: classifier_data.ClassifierData, name: str, batch_size: int
) -> dict[str, float]:
    """Loss and scores on a dev set."""
    from tasks.classifier import task as classifier_task

    logits = _logits(trainer, data.batches(name, batch_size))
    found = classifier_task.results(logits, data.labels_of(name), data.kind, data.metrics)
    trainer.check_loss(found["loss"])
    return {**found, "global_step": trainer.step}


def _plain(results: Mapping[str, float]) -> dict[str, float]:
    """Results under the plain names that the training loop puts ``eval_`` before."""
    return {
        name.removeprefix("eval_"): value
        for name, value in results.items()
        if name != "global_step"
    }


def _logits(trainer: loop.Trainer, batches: Batches) -> np.ndarray:
    """float32 [N, L], in the order of the examples."""
    import numpy as np

    from training import batching

    task = cast("classifier_task.Classification", trainer.task)
    parts = trainer.predict(batches, task.outputs)
    logits = batching.restore_order(parts, batches.num_examples)["logits"]
    wrong = int(np.sum(~np.isfinite(logits).all(-1)))
    if wrong:
        raise errors.UserError(
            f"step {trainer.step}: the outputs of {wrong} of {len(logits)} examples are not "
            "finite: the weights are of no use; train again with a lower --learning_rate"
        )
    return logits


def _predict(
    trainer: loop.Trainer,
    data: classifier_data.ClassifierData,
    name: str,
    batch_size: int,
    directory: str,
) -> None:
    """Writes a line for each example of a test set."""
    from tasks.classifier import task as classifier_task

    logits = _logits(trainer, data.batches(name, batch_size))
    if not trainer.is_chief:
        return
    rows = classifier_task.probabilities(logits, data.kind)
    path = os.path.join(directory, f"{name}.tsv")
    # str of a NumPy float32, as ever: the shortest digits that give it back.
    lines = ("\t".join(map(str, row)) for row in rows)
    atomic_files.write_text(path, "".join(f"{line}\n" for line in lines))
    _log.info("wrote %s: %d predictions", path, len(rows))


def _export(
    trainer: loop.Trainer,
    data: classifier_data.ClassifierData,
    text: options.TokenizerOptions,
    max_seq_length: int,
    directory: str,
) -> None:
    """Writes a SavedModel that takes ids, or texts."""
    from serving import export

    path = os.path.join(directory, "export")
    task = cast("classifier_task.Classification", trainer.task)
    export.save_classifier(path, task, data.labels, text, max_seq_length)
    _log.info("exported step %d to %s", trainer.step, path)


def main(argv: Sequence[str] | None = None) -> int:
    return app.run(classify, classifier_options.GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
