"""Pre-trains a BERT model on the records of create_pretraining_data.py, and evaluates it.

    python run_pretraining.py --bert_config_file=bert_config.json --input_file=records.tfrecord \\
        --output_dir=run --do_train --do_eval --num_train_steps=10000 --num_warmup_steps=1000

Training goes on from the newest checkpoint in --output_dir. SIGTERM or Ctrl-C saves and ends the
run; the same command continues it. Evaluation counts each record of --eval_file (unset:
--input_file) once, up to --max_eval_steps batches, and writes eval_results.txt.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import command_line
import errors
import options

if TYPE_CHECKING:
    import batching
    import modeling
    import training

_log = logging.getLogger(__name__)


def pretrain(
    data: options.PretrainingOptions,
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
    command_line.import_tensorflow()
    import tensorflow as tf

    import checkpoint_files
    import checkpoints
    import devices
    import modeling
    import optimization
    import training
    from tasks import pretraining

    device = options.resolve_device(device)
    paths = {"output_dir": run.output_dir, "input_file": data.input_file}
    devices.check_paths(device, {**paths, "init_checkpoint": model.init_checkpoint})
    config = modeling.BertConfig.from_json_file(model.bert_config_file)
    if data.max_seq_length > config.max_position_embeddings:
        raise errors.FlagError(
            f"--max_seq_length={data.max_seq_length}: the model has max_position_embeddings "
            f"{config.max_position_embeddings} ({model.bert_config_file})"
        )
    strategy = devices.create_strategy(device)
    train_batches, eval_batches = _open_batches(data, run, device, config)
    if model.init_checkpoint and not checkpoints.latest(run.output_dir):
        checkpoints.resolve(model.init_checkpoint)  # a wrong path ends here

    trainer = training.Trainer(
        lambda: pretraining.create_objective(
            data.objective,
            config,
            compute_dtype=devices.COMPUTE_DTYPES[device.precision],
            static_shapes=device.static_shapes,
            seed=run.random_seed,
        ),
        strategy=strategy,
        run=run,
        device=device,
        init_checkpoint=model.init_checkpoint,
    )
    if trainer.is_chief:
        tf.io.gfile.makedirs(run.output_dir)
        training.write_run_description(
            run.output_dir, strategy, [data, model, optimizer, run, device]
        )
        own_config = os.path.join(run.output_dir, "bert_config.json")
        checkpoint_files.write_text(own_config, trainer.task.model.bert.config.to_json_string())

    if train_batches:
        schedule = optimization.Schedule(
            optimizer.learning_rate, data.num_train_steps, data.num_warmup_steps
        )
        during = (
            (lambda: _with_perplexity(trainer.evaluate(eval_batches))) if run.eval_steps else None
        )
        finished = trainer.train(
            train_batches,
            schedule,
            accumulation=optimizer.gradient_accumulation_steps,
            evaluate=during,
        )
        if not finished:
            return
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", trainer.save_weights())
    if data.do_eval:
        _evaluate(trainer, eval_batches, run, trained=data.do_train)
        # The left-to-right objective predicts every token, not the hidden ones counted here.
        if trainer.is_chief and data.objective != "ltr":
            alone = eval_batches.dataset(tf.distribute.InputContext())
            baseline = pretraining.frequency_baseline(alone, config.vocab_size)
            _log.info(
                "for comparison, guessing by frequency: %s", training.format_results(baseline)
            )


def _open_batches(
    data: options.PretrainingOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
    config: modeling.BertConfig,
) -> tuple[batching.RecordBatches | None, batching.RecordBatches]:
    """Finds and checks the record files: batches for training (or None) and for evaluation."""
    import batching
    import inputs
    import records

    features = records.pretraining_features(data.max_seq_length, data.max_predictions_per_seq)
    limits = {
        "input_ids": (config.vocab_size, "vocab_size"),
        "masked_lm_ids": (config.vocab_size, "vocab_size"),
        "segment_ids": (config.type_vocab_size, "type_vocab_size"),
        "masked_lm_positions": (data.max_seq_length, "max_seq_length"),
        "next_sentence_labels": (2, "number of next-sentence labels"),
    }

    def open_(
        flag: str, patterns: str, batch_size: int, seed: int | None
    ) -> batching.RecordBatches:
        try:
            paths = inputs.expand(flag, patterns)
        except errors.UserError as error:
            raise errors.UserError(
                f"{error}; create_pretraining_data.py makes these files"
            ) from None
        for path in paths:
            records.check_first_record(path, features)
        batches = batching.RecordBatches(
            paths,
            features,
            batch_size=batch_size,
            seed=seed,
            max_batches=data.max_eval_steps if seed is None else None,
            static_shapes=device.static_shapes,
            limits=limits,
        )
        _log.info("--%s: %d records in %d files", flag, batches.num_examples, len(paths))
        return batches

    train = None
    if data.do_train:
        train = open_("input_file", data.input_file, data.train_batch_size, run.random_seed)
    flag, patterns = (
        ("eval_file", data.eval_file) if data.eval_file else ("input_file", data.input_file)
    )
    return train, open_(flag, patterns, data.eval_batch_size, None)


def _evaluate(
    trainer: training.Trainer,
    batches: batching.RecordBatches,
    run: options.RunOptions,
    trained: bool,
) -> None:
    """Evaluates the weights at hand, or the checkpoints that --eval_checkpoint names."""
    import training

    if trained and not run.eval_checkpoint:
        wanted: list[str | None] = [None]
    else:
        wanted = trainer.checkpoints_to_evaluate(run.eval_checkpoint)
    for prefix in wanted:
        if not trained or prefix:
            trainer.restore_for_evaluation(prefix)
        results = _with_perplexity(trainer.evaluate(batches))
        for name, value in sorted(results.items()):
            _log.info("  %s = %s", name, training.shown(value))
        if trainer.is_chief:
            name = "eval_results.txt"
            if len(wanted) > 1:
                name = f"eval_results-{trainer.step}.txt"
            path = os.path.join(run.output_dir, name)
            training.write_results(path, results)
            _log.info("wrote %s", path)


def _with_perplexity(results: dict[str, float]) -> dict[str, float]:
    """Adds exp of the masked-LM loss (paper section 5.2)."""
    return {**results, "perplexity": math.exp(min(results["masked_lm_loss"], 700.0))}


GROUPS = (
    options.PretrainingOptions,
    options.ModelOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)


def main(argv: Sequence[str] | None = None) -> int:
    return command_line.run(pretrain, GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
