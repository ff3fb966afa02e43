"""Pre-trains a BERT model on the records of create_pretraining_data.py, and evaluates it.

    python run_pretraining.py --bert_config_file=bert_config.json --input_file=records.tfrecord \\
        --output_dir=run --do_train --do_eval --num_train_steps=10000 --num_warmup_steps=1000

Training goes on from the newest checkpoint in --output_dir. SIGTERM or Ctrl-C saves and ends the
run; the same command continues it. Evaluation counts each record of --eval_file (unset:
--input_file) once, up to --max_eval_steps batches, and writes eval_results.txt, or
eval_results-<step>.txt for a checkpoint that --eval_checkpoint names.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from command_line import app, errors, options
from system import outputs
from tasks.pretraining import options as pretraining_options

if TYPE_CHECKING:
    import modeling
    from tasks.pretraining import record_batches
    from training import compatibility, loop

_log = logging.getLogger(__name__)


def pretrain(
    data: pretraining_options.PretrainingOptions,
    model: options.ModelOptions,
    optimizer: options.OptimizerOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> None:
    """Trains and evaluates as the flags say.

    Raises:
      errors.UserError: files that are missing or do not fit each other, a loss that is not finite.
      errors.FlagError: flags that do not fit each other.
    """
    app.import_tensorflow()
    import tensorflow as tf

    import optimization
    from checkpoints import manager
    from tasks.pretraining import objectives
    from training import devices, evaluation, loop, run_files, run_state

    device = options.resolve_device(device)
    config = _check_flags(data, model, run)
    strategy = devices.create_strategy(device)
    files = _Files(data, config, device)
    with strategy.scope():
        objective = objectives.create_objective(
            data.objective,
            config,
            compute_dtype=devices.COMPUTE_DTYPES[device.precision],
            static_shapes=device.static_shapes,
            seed=run.random_seed,
        )
        state = run_state.RunState(
            objective,
            run=run,
            init_checkpoint=model.init_checkpoint,
            signature=f"--objective={data.objective}",
            metadata={"attention": objective.model.encoder.config.attention},
        )
    trainer = loop.Trainer(objective, state, strategy=strategy, run=run, device=device)
    # All that can be wrong with checkpoints shows before the records are counted.
    origin = _check_checkpoints(config, data, model, run)
    if data.do_train:
        rate, warmup = optimizer.learning_rate, data.num_warmup_steps
        schedule = optimization.Schedule(rate, data.num_train_steps, warmup)
        parts = optimizer.gradient_accumulation_steps
        trainer.prepare_training(schedule, data.train_batch_size, parts)
        if manager.latest(run.output_dir):
            origin.warn_about_changed_flags([data, model, optimizer, run, device])
    else:
        state.ensure_loaded(evaluation.chosen(run)[0])
    index = os.path.join(run.output_dir, "input_windows.json")
    train_batches = files.training(run.random_seed, index) if data.do_train else None
    eval_batches = files.evaluation() if data.do_eval or run.eval_steps else None

    def describe() -> None:
        groups = [data, model, optimizer, run, device]
        found = devices.describe(strategy)
        used = trainer.task.model.encoder.config.to_json_string()
        run_files.write_run_description(run.output_dir, found, groups, used)
        if train_batches:
            train_batches.write_index(index)

    if train_batches:
        evaluate = functools.partial(_results, trainer, eval_batches)
        if not trainer.train(train_batches, evaluate, begin=describe):
            return
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", state.save_weights())
    elif trainer.is_chief:
        tf.io.gfile.makedirs(run.output_dir)
    if data.do_eval and eval_batches:
        evaluation.evaluate_each(
            trainer, run, lambda: {"eval_results": _results(trainer, eval_batches)}
        )
        if data.objective != "ltr":  # which predicts every token, not the masked ones counted here
            _report_baseline(trainer, eval_batches, config.vocab_size)


def _check_flags(
    data: pretraining_options.PretrainingOptions,
    model: options.ModelOptions,
    run: options.RunOptions,
) -> modeling.BertConfig:
    """Finds contradictions between flags, and reads the config."""
    import modeling

    if run.eval_checkpoint and not data.do_eval:
        raise errors.FlagError("--eval_checkpoint does nothing without --do_eval; add it")
    if run.eval_steps and not data.do_train:
        raise errors.FlagError("--eval_steps does nothing without --do_train; add it")
    outputs.check_directory("output_dir", run.output_dir)
    config = modeling.BertConfig.from_json_file(model.bert_config_file)
    if data.max_seq_length > config.max_position_embeddings:
        raise errors.FlagError(
            f"--max_seq_length={data.max_seq_length}: the model has max_position_embeddings "
            f"{config.max_position_embeddings} ({model.bert_config_file})"
        )
    if data.do_train and data.num_warmup_steps >= data.num_train_steps:
        _log.warning(
            "--num_warmup_steps=%d is not below --num_train_steps=%d: training ends before the "
            "learning rate reaches its peak; a tenth of the steps is usual",
            data.num_warmup_steps,
            data.num_train_steps,
        )
    return config


def _check_checkpoints(
    config: modeling.BertConfig,
    data: pretraining_options.PretrainingOptions,
    model: options.ModelOptions,
    run: options.RunOptions,
) -> compatibility.Origin:
    """Finds checkpoints that are not there, or were trained with another config."""
    from checkpoints import restore
    from training import compatibility, evaluation

    evaluation.check(run, data.do_train)
    evaluated = "" if data.do_train else run.named_checkpoint
    source = restore.starting_checkpoint(model.init_checkpoint, run.output_dir, evaluated)
    origin = compatibility.Origin.read(source)
    origin.check_config(config, model.bert_config_file)
    return origin


class _Files:
    """The record files that the flags name: found and looked into, not yet read.

    Raises:
      errors.UserError: a pattern without a file, or records of another form than the flags say.
    """

    def __init__(
        self,
        data: pretraining_options.PretrainingOptions,
        config: modeling.BertConfig,
        device: options.DeviceOptions,
    ):
        from tasks.pretraining import records

        self._data = data
        self._static_shapes = device.static_shapes
        self._features = records.pretraining_features(
            data.max_seq_length, data.max_predictions_per_seq
        )
        self._limits = {
            "input_ids": (config.vocab_size, "vocab_size"),
            "masked_lm_ids": (config.vocab_size, "vocab_size"),
            "segment_ids": (config.type_vocab_size, "type_vocab_size"),
            "masked_lm_positions": (data.max_seq_length, "max_seq_length"),
            "next_sentence_labels": (2, "number of next-sentence labels"),
        }
        self._train_paths = self._find("input_file", data.input_file)
        self._eval_paths = self._train_paths
        if data.eval_file:
            self._eval_paths = self._find("eval_file", data.eval_file)

    def _find(self, flag: str, patterns: str) -> list[str]:
        from system import inputs
        from tasks.pretraining import records

        try:
            paths = inputs.expand(flag, patterns)
        except errors.UserError as error:
            raise errors.UserError(
                f"{error}; create_pretraining_data.py makes these files"
            ) from None
        for path in paths:
            records.check_first_record(path, self._features)
        return paths

    def training(self, seed: int, index: str) -> record_batches.RecordBatches:
        """Endless shuffled batches; ``index``: see RecordBatches."""
        size = self._data.train_batch_size
        batches = self._open(self._train_paths, size, seed=seed, index=index)
        _log.info("training on %d records of --input_file", batches.num_examples)
        return batches

    def evaluation(self) -> record_batches.RecordBatches:
        """Each record once, in order, up to --max_eval_steps batches."""
        batches = self._open(
            self._eval_paths,
            self._data.eval_batch_size,
            seed=None,
            max_batches=self._data.max_eval_steps,
        )
        flag = "--eval_file" if self._data.eval_file else "--input_file"
        _log.info("evaluating on %d records of %s", batches.num_examples, flag)
        return batches

    def _open(self, paths: list[str], batch_size: int, **more: Any) -> record_batches.RecordBatches:
        from tasks.pretraining import record_batches

        return record_batches.RecordBatches(
            paths,
            self._features,
            batch_size=batch_size,
            static_shapes=self._static_shapes,
            limits=self._limits,
            **more,
        )


def _results(
    trainer: loop.Trainer, batches: record_batches.RecordBatches | None
) -> dict[str, float]:
    """Evaluates, and adds exp of the masked-LM loss (paper section 5.2)."""
    assert batches is not None
    results = trainer.evaluate(batches)
    return {**results, "perplexity": math.exp(min(results["masked_lm_loss"], 700.0))}


def _report_baseline(
    trainer: loop.Trainer, batches: record_batches.RecordBatches, vocab_size: int
) -> None:
    """Logs what guessing by frequency achieves on the same records."""
    import tensorflow as tf

    from tasks.pretraining import objectives
    from training import run_files

    if trainer.is_chief:
        alone = batches.dataset(tf.distribute.InputContext())
        found = run_files.format_results(objectives.frequency_baseline(alone, vocab_size))
        _log.info("for comparison, guessing by frequency: %s", found)


GROUPS = (
    pretraining_options.PretrainingOptions,
    options.ModelOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)


def main(argv: Sequence[str] | None = None) -> int:
    return app.run(pretrain, GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
