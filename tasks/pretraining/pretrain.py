"""The work of run_pretraining.py: from flags to a trained and evaluated model."""

import functools
import logging
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import modeling
import optimization
from checkpoints import manager, restore
from command_line import errors, options
from system import inputs
from tasks.pretraining import objectives, record_batches, record_files, records
from tasks.pretraining import options as pretraining_options
from training import compatibility, devices, evaluation, loop, run_files, run_state

_log = logging.getLogger(__name__)


def pretrain(*groups: Any) -> None:
    """Trains and evaluates as the flags say.

    Args:
      *groups: the fields of ``pretraining_options.PretrainingFlags``.

    Raises:
      errors.UserError: files that are missing or do not fit each other, a loss that is not finite.
      errors.FlagError: flags that do not fit each other.
    """
    flags = pretraining_options.PretrainingFlags(*groups)
    flags = flags._replace(device=options.resolve_device(flags.device))
    data, run = flags.data, flags.run
    config = _read_config(flags)
    strategy = devices.create_strategy(flags.device)
    files = _RecordFiles(flags, config)
    trainer = _create_trainer(flags, config, strategy)
    # Everything that can be wrong with checkpoints is found before the records are counted.
    _load_weights(trainer, flags, config)
    train_batches = files.training_batches(run.random_seed) if data.do_train else None
    eval_batches = files.evaluation_batches() if data.do_eval or run.eval_steps else None
    if train_batches:
        describe = functools.partial(
            run_files.write_run_description,
            run.output_dir,
            devices.describe(strategy),
            flags,
            trainer.task.model.encoder.config.to_json_string(),
        )
        evaluate = functools.partial(_evaluate, trainer, eval_batches)
        trainer.train(train_batches, evaluate, begin=describe)
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", trainer.state.save_weights())
    elif trainer.is_chief:
        tf.io.gfile.makedirs(run.output_dir)
    if data.do_eval and eval_batches:
        evaluation.evaluate_each(
            trainer, flags, lambda: {"eval_results": _evaluate(trainer, eval_batches)}
        )
        if data.objective != "ltr":  # which predicts every token, not the masked ones counted here
            _log_baseline(trainer, eval_batches, config.vocab_size)


def _read_config(flags: pretraining_options.PretrainingFlags) -> modeling.BertConfig:
    """Reads --bert_config_file, and compares flags with it and with each other."""
    data, path = flags.data, flags.model.bert_config_file
    config = modeling.BertConfig.from_json_file(path)
    if data.max_seq_length > config.max_position_embeddings:
        raise errors.FlagError(
            f"--max_seq_length={data.max_seq_length}: the model has max_position_embeddings "
            f"{config.max_position_embeddings} ({path})"
        )
    if data.do_train and data.num_warmup_steps >= data.num_train_steps:
        _log.warning(
            "--num_warmup_steps=%d is not below --num_train_steps=%d: training ends before the "
            "learning rate reaches its peak; a tenth of the steps is usual",
            data.num_warmup_steps,
            data.num_train_steps,
        )
    return config


def _create_trainer(
    flags: pretraining_options.PretrainingFlags,
    config: modeling.BertConfig,
    strategy: tf.distribute.Strategy,
) -> loop.Trainer:
    run, device = flags.run, flags.device
    with strategy.scope():
        objective = objectives.create_objective(
            flags.data.objective,
            config,
            compute_dtype=tf.as_dtype(device.precision),
            static_shapes=device.static_shapes,
            seed=run.random_seed,
        )
        state = run_state.RunState(
            objective,
            run=run,
            initial=run_state.InitialWeights(flags.model.init_checkpoint),
            signature=f"--objective={flags.data.objective}",
            metadata={"attention": objective.model.encoder.config.attention},
        )
    return loop.Trainer(objective, state, strategy=strategy, run=run, device=device)


def _load_weights(
    trainer: loop.Trainer, flags: pretraining_options.PretrainingFlags, config: modeling.BertConfig
) -> None:
    """Loads the checkpoint to start from or to evaluate, if it was trained with this config."""
    data, run, model = flags.data, flags.run, flags.model
    evaluation.check_selection(run, data.do_train)
    evaluated = "" if data.do_train else run.named_checkpoint
    checkpoint = restore.starting_checkpoint(model.init_checkpoint, run.output_dir, evaluated)
    origin = compatibility.Origin.read(checkpoint)
    origin.check_config(config, model.bert_config_file)
    if not data.do_train:
        trainer.state.ensure_loaded(evaluation.selected_checkpoints(run)[0])
        origin.warn_about_changed_flags(flags, trains=False)
        return
    optimizer = flags.optimizer
    schedule = optimization.Schedule(
        optimizer.learning_rate, data.num_train_steps, data.num_warmup_steps
    )
    trainer.prepare_training(schedule, data.train_batch_size, optimizer.gradient_accumulation_steps)
    if manager.latest(run.output_dir):
        origin.warn_about_changed_flags(flags, trains=True)


class _RecordFiles:
    """The record files that the flags name; the first record of each is checked, none is read yet.

    Raises:
      errors.UserError: a pattern without a file, or records of another form than the flags say.
    """

    def __init__(self, flags: pretraining_options.PretrainingFlags, config: modeling.BertConfig):
        self._data = data = flags.data
        self._static_shapes = flags.device.static_shapes
        self._features = records.pretraining_features(
            data.max_seq_length,
            data.max_predictions_per_seq,
            vocab_size=config.vocab_size,
            type_vocab_size=config.type_vocab_size,
        )
        self._train_paths = self._find("input_file", data.input_file)
        self._eval_paths = self._train_paths
        if data.eval_file:
            self._eval_paths = self._find("eval_file", data.eval_file)

    def _find(self, flag: str, patterns: str) -> list[str]:
        try:
            paths = inputs.expand(flag, patterns)
        except errors.UserError as error:
            raise errors.UserError(
                f"{error}; create_pretraining_data.py makes these files"
            ) from None
        full = [path for path in paths if record_files.check_first_record(path, self._features)]
        if not full:
            raise errors.UserError(
                f"--{flag}: no records in {errors.some(paths)}; make them again, or wait until "
                "they are written"
            )
        if len(full) < len(paths):
            empty = [path for path in paths if path not in full]
            _log.warning("--%s: no records in %s", flag, errors.some(empty))
        return full

    def training_batches(self, seed: int) -> record_batches.RecordBatches:
        """Endless shuffled batches."""
        batches = self._open(self._train_paths, self._data.train_batch_size, seed=seed)
        _log.info("training on %d records of --input_file", batches.num_examples)
        return batches

    def evaluation_batches(self) -> record_batches.RecordBatches:
        """Each record once, in order, up to --max_eval_steps batches."""
        data = self._data
        batches = self._open(
            self._eval_paths, data.eval_batch_size, seed=None, max_batches=data.max_eval_steps
        )
        flag = "--eval_file" if data.eval_file else "--input_file"
        _log.info("evaluating on %d records of %s", batches.num_examples, flag)
        return batches

    def _open(
        self, paths: Sequence[str], batch_size: int, **order: Any
    ) -> record_batches.RecordBatches:
        return record_batches.RecordBatches(
            paths,
            self._features,
            batch_size=batch_size,
            static_shapes=self._static_shapes,
            **order,
        )


def _evaluate(
    trainer: loop.Trainer, batches: record_batches.RecordBatches | None
) -> dict[str, float]:
    """Evaluates, and adds exp of the masked-LM loss (paper section 5.2)."""
    assert batches is not None
    results = trainer.evaluate(batches)
    return {**results, "perplexity": math.exp(min(results["masked_lm_loss"], 700.0))}


def _log_baseline(
    trainer: loop.Trainer, batches: record_batches.RecordBatches, vocab_size: int
) -> None:
    """Logs what guessing by frequency achieves on the same records."""
    if trainer.is_chief:
        dataset = batches.dataset(tf.distribute.InputContext())  # all records, without replicas
        baseline = objectives.frequency_baseline(dataset, vocab_size)
        _log.info("for comparison, guessing by frequency: %s", run_files.format_results(baseline))
