"""Fine-tunes BERT on SQuAD 1.1, SQuAD 2.0 or questions in their layout; answers and scores.

    python run_squad.py --do_train --train_file=train-v1.1.json --do_predict --do_eval \\
        --predict_file=dev-v1.1.json --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=squad

Training goes on from the newest checkpoint in --output_dir. --do_predict writes predictions.json,
nbest_predictions.json and, with --version_2_with_negative, null_odds.json; --do_eval writes
eval_results.txt and eval_results.json.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from command_line import app, errors, options
from system import outputs
from tasks.squad import options as squad_options

if TYPE_CHECKING:
    import tensorflow as tf

    import modeling
    from tasks.squad import data as squad_data
    from tasks.squad import task as squad_task
    from training import loop

_log = logging.getLogger(__name__)


def squad(
    task: squad_options.SquadOptions,
    text: options.TokenizerOptions,
    model: options.ModelOptions,
    tuning: options.FineTuningOptions,
    optimizer: options.OptimizerOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> None:
    """Trains, predicts, scores and exports as the flags say.

    Raises:
      errors.UserError: files that are missing or do not fit each other, a loss that is not finite.
      errors.FlagError: flags that do not fit each other.
    """
    members = _members(model.init_checkpoint)
    _check_flags(task, tuning, run, members)
    data = _read(task, tuning, run)
    app.import_tensorflow()
    from checkpoints import manager, restore
    from tasks.squad import predictor
    from training import devices, evaluation, fine_tuning, loop, run_files

    evaluation.check(run, tuning.do_train)
    fine_tuning.warn_about_unused_flags(tuning, run)
    if task.do_export:
        from serving import export

        export.check_place(os.path.join(run.output_dir, "export"))
    device = options.resolve_device(device)
    first = dataclasses.replace(model, init_checkpoint=members[0] if members else "")
    evaluated = "" if tuning.do_train else run.named_checkpoint
    source = restore.starting_checkpoint(first.init_checkpoint, run.output_dir, evaluated)
    config = fine_tuning.read_config(first, task.max_seq_length, source)
    data.tokenizer = fine_tuning.create_tokenizer(text, config, first.init_checkpoint, source)
    _check_texts_and_configs(members[1:], text, config, model.bert_config_file)
    data.lengths = fine_tuning.static_lengths(device, task.max_seq_length)
    strategy = devices.create_strategy(device)
    trainer = _create_trainer(config, strategy, members, model, tuning, run, device)
    if tuning.do_train:
        schedule = fine_tuning.create_schedule(
            optimizer, tuning, len(data.examples["train"].questions)
        )
        parts = optimizer.gradient_accumulation_steps
        trainer.prepare_training(schedule, tuning.train_batch_size, parts)
    elif len(members) > 1:
        trainer.ensure_loaded(members[0], "--init_checkpoint")
    else:
        trainer.ensure_loaded(evaluation.chosen(run)[-1])
    answers = predictor.Answering(trainer, data, task, run, members)
    describe = functools.partial(
        run_files.write_run_description,
        run.output_dir,
        devices.describe(strategy),
        [task, text, model, tuning, optimizer, run, device],
        config.to_json_string(),
    )
    # What lies there belongs to the checkpoints there.
    if not tuning.do_train and trainer.is_chief and not manager.latest(run.output_dir):
        describe()
    if tuning.do_train:
        batches = data.batches("train", tuning.train_batch_size, run.random_seed)
        part = "dev" if task.dev_file else "predict"
        best = loop.BestMetric("f1", higher=True)
        if not trainer.train(batches, lambda: answers.scores(part), best, describe):
            return
        if run.save_weights_only and trainer.is_chief:
            _log.info("weights without optimizer state: %s", trainer.save_weights())
    answers.finish()
    if task.do_export:
        trainer.ensure_loaded(evaluation.chosen(run)[-1])
        if trainer.is_chief:
            _export(trainer, text.vocab_file, run.output_dir)


# --------------------------------------------------------------------------------------------------
# Before the work
# --------------------------------------------------------------------------------------------------


def _members(init_checkpoint: str) -> list[str]:
    """The models that --init_checkpoint names: none, one, or those of an ensemble."""
    if os.path.exists(init_checkpoint) or os.path.exists(f"{init_checkpoint}.index"):
        return [init_checkpoint]  # it may have a comma in its name
    if not init_checkpoint:
        return []
    members = [path.strip() for path in init_checkpoint.split(",")]
    if not all(members):
        raise errors.FlagError(
            f"--init_checkpoint={init_checkpoint}: there is no name before or after a comma"
        )
    twice = [member for member in dict.fromkeys(members) if members.count(member) > 1]
    if twice:
        raise errors.FlagError(f"--init_checkpoint names {twice[0]} more than once")
    return members


def _check_flags(
    task: squad_options.SquadOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    members: Sequence[str],
) -> None:
    """Finds contradictions between flags that need no file."""
    answers = task.do_predict or task.do_eval
    if not (tuning.do_train or answers or task.do_export):
        raise errors.FlagError(
            "nothing to do: give --do_train, --do_predict, --do_eval or --do_export"
        )
    if run.eval_steps and not tuning.do_train:
        raise errors.FlagError("--eval_steps does nothing without --do_train; add it")
    if run.eval_checkpoint == "all" and not task.do_eval:
        raise errors.FlagError("--eval_checkpoint=all does nothing without --do_eval; add it")
    if run.eval_checkpoint and not (answers or task.do_export):
        raise errors.FlagError(
            f"--eval_checkpoint={run.eval_checkpoint} does nothing without --do_eval, "
            "--do_predict or --do_export; add one"
        )
    _check_files(task, tuning, run)
    _check_threshold(task, tuning)
    if len(members) > 1:
        _check_ensemble(task, tuning, run, members)
    outputs.check_directory("output_dir", run.output_dir)


def _check_files(
    task: squad_options.SquadOptions, tuning: options.FineTuningOptions, run: options.RunOptions
) -> None:
    """Demands the files that the run reads."""
    if tuning.do_train and not task.train_file:
        raise errors.FlagError("--train_file is missing; --do_train needs it")
    for flag in ("do_predict", "do_eval"):
        if getattr(task, flag) and not task.predict_file:
            raise errors.FlagError(f"--predict_file is missing; --{flag} needs it")
    if run.eval_steps and not (task.dev_file or task.predict_file):
        raise errors.FlagError("--dev_file is missing; --eval_steps needs it, or --predict_file")
    is_tuned = task.null_score_diff_threshold == "auto"
    if task.dev_file and not (run.eval_steps or is_tuned):
        raise errors.FlagError(
            "--dev_file does nothing without --eval_steps or --null_score_diff_threshold=auto"
        )


def _check_threshold(task: squad_options.SquadOptions, tuning: options.FineTuningOptions) -> None:
    """Finds a --null_score_diff_threshold that would do nothing."""
    threshold = task.null_score_diff_threshold
    if threshold != "auto":
        if float(threshold) and not task.version_2_with_negative:
            _log.warning(
                "--null_score_diff_threshold=%s does nothing without --version_2_with_negative",
                threshold,
            )
        return
    if not task.version_2_with_negative:
        raise errors.FlagError(
            "--null_score_diff_threshold=auto does nothing without --version_2_with_negative; "
            "add it"
        )
    if tuning.do_train and not task.dev_file:
        raise errors.FlagError(
            "--dev_file is missing; --null_score_diff_threshold=auto needs it with --do_train"
        )
    if not (tuning.do_train or task.do_predict or task.do_eval or task.dev_file):
        raise errors.FlagError(
            "--null_score_diff_threshold=auto does nothing without --do_predict or --do_eval"
        )


def _check_ensemble(
    task: squad_options.SquadOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    members: Sequence[str],
) -> None:
    """Finds what several models cannot do together."""
    for flag, given in (
        ("do_train", tuning.do_train),
        ("do_export", task.do_export),
        ("eval_checkpoint", run.eval_checkpoint),
    ):
        if given:
            raise errors.FlagError(
                f"--init_checkpoint names {len(members)} models ({', '.join(members)}), which can "
                f"only predict together; --{flag} takes one"
            )


def _read(
    task: squad_options.SquadOptions, tuning: options.FineTuningOptions, run: options.RunOptions
) -> squad_data.SquadData:
    """Reads all sets that the run needs, so that every mistake in them shows first."""
    from tasks.squad import data as squad_data
    from tasks.squad import prediction_files

    if task.do_predict:
        prediction_files.check_places(run.output_dir, task.version_2_with_negative)
    data = squad_data.SquadData(task)
    is_tuned = bool(task.dev_file) and task.null_score_diff_threshold == "auto"
    watches_predict = bool(run.eval_steps) and not task.dev_file
    # Whether a set is needed, and whether its right answers are.
    needs = {
        "train": (tuning.do_train, False),
        "dev": (bool(task.dev_file), is_tuned or bool(run.eval_steps)),
        "predict": (
            task.do_predict or task.do_eval or watches_predict,
            task.do_eval or watches_predict,
        ),
    }
    wanted = {part: scored for part, (needed, scored) in needs.items() if needed}
    for part in wanted:  # a wrong path shows before a large file is read
        outputs.check_data(run.output_dir, f"{part}_file", [data.find(part)])
    for part, scored in wanted.items():
        data.read(part, scored=scored)
    return data


def _create_trainer(
    config: modeling.BertConfig,
    strategy: tf.distribute.Strategy,
    members: Sequence[str],
    model: options.ModelOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> loop.Trainer:
    """Makes the trainer, after a look at the heads of the checkpoints that it will use."""
    from training import compatibility, fine_tuning, loop

    head = compatibility.Head(
        task="squad",
        outputs="start and end of an answer",
        size=2,
        name=tuning.head,
        attention=config.attention,
        weights="cls/squad/output_weights",
    )
    if len(members) > 1:
        _check_attention(members, model.bert_config_file)
    for member in members or [""]:
        own = dataclasses.replace(model, init_checkpoint=member)
        compatibility.check(head, own, tuning, run)
    trainer = loop.Trainer(
        lambda: _build_task(config, tuning, run, device),
        strategy=strategy,
        run=run,
        device=device,
        init_checkpoint=members[0] if len(members) == 1 else "",
        kind=head.outputs,
        notes={"attention": head.attention, "task": head.task},
        length_flag="--num_train_epochs",
        fresh=fine_tuning.new_scopes(tuning, ("cls/squad/",)),
    )
    if len(members) > 1:
        _check_members(trainer, members, run.output_dir)
    return trainer


def _check_texts_and_configs(
    members: Sequence[str],
    text: options.TokenizerOptions,
    config: modeling.BertConfig,
    bert_config_file: str,
) -> None:
    """Finds members of an ensemble that were trained on other tokens, or with another config."""
    import tokenization
    from checkpoints import restore
    from training import compatibility

    for member in members:
        tokenization.validate_case_matches_checkpoint(text.do_lower_case, member)
        path = restore.resolve(member).path
        compatibility.check_config(config, path, bert_config_file)
        compatibility.warn_if_text_rules_differ(text, path)


def _check_attention(members: Sequence[str], bert_config_file: str) -> None:
    """Finds members of an ensemble that one encoder cannot run."""
    import modeling
    from checkpoints import manager, restore

    usual = modeling.BertConfig.from_json_file(bert_config_file).attention
    found = {}
    for member in members:
        state = manager.read_state(restore.resolve(member).path)
        found[member] = state.get("attention", usual)
    if len(set(found.values())) > 1:
        each = ", ".join(f"{member}: {attention}" for member, attention in found.items())
        raise errors.UserError(
            f"--init_checkpoint names models that differ in attention ({each}), and cannot predict "
            "together; give those of one kind"
        )


def _check_members(trainer: loop.Trainer, members: Sequence[str], output_dir: str) -> None:
    """Finds out whether all models of an ensemble fit, and are those that would be used."""
    from checkpoints import manager, restore

    newest = manager.latest(output_dir)
    if newest:
        raise errors.UserError(
            f"--init_checkpoint names {len(members)} models, but {newest} is there, and what is in "
            "--output_dir comes first; give another --output_dir"
        )
    named: dict[str, str] = {}
    for member in members:
        weights = restore.resolve(member)
        trainer.check_trained(weights, "--init_checkpoint")
        other = named.setdefault(os.path.realpath(weights.path), member)
        if other != member:
            raise errors.FlagError(
                f"--init_checkpoint names one model twice, as {other} and as {member}; give each "
                "once"
            )


def _build_task(
    config: modeling.BertConfig,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
    device: options.DeviceOptions,
) -> squad_task.QuestionAnswering:
    import modeling
    from tasks.squad import task as squad_task
    from training import devices, fine_tuning

    encoder = modeling.BertModel(
        config,
        compute_dtype=devices.COMPUTE_DTYPES[device.precision],
        static_shapes=device.static_shapes,
        seed=run.random_seed,
    )
    model = modeling.SpanModel(encoder, bilstm=tuning.head == "bilstm")
    frozen = fine_tuning.frozen_scopes(tuning.freeze_layers, encoder)
    return squad_task.QuestionAnswering(model, frozen)


def _export(trainer: loop.Trainer, vocab_file: str, directory: str) -> None:
    """Writes a SavedModel that takes ids: those of ``export``, and one with the ids of windows."""
    import tensorflow as tf

    from serving import export

    task = cast("squad_task.QuestionAnswering", trainer.task)
    longest = task.model.encoder.config.max_position_embeddings
    signatures = export.ids_signatures(task.logits, longest)
    plain = signatures["serving_default"]
    specs = [
        tf.TensorSpec([None], tf.int32, "unique_ids"),
        *(
            tf.TensorSpec([None, None], tf.int32, name)
            for name in ("input_ids", "input_mask", "segment_ids")
        ),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def with_unique_ids(
        unique_ids: tf.Tensor, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        found = plain(input_ids, input_mask, segment_ids)
        return {**found, "unique_ids": tf.identity(unique_ids)}

    path = os.path.join(directory, "export")
    with tf.io.gfile.GFile(vocab_file, "rb") as file:
        assets = {"vocab.txt": file.read()}
    export.save(path, [task], {**signatures, "with_unique_ids": with_unique_ids}, assets)
    _log.info("exported step %d to %s", trainer.step, path)


GROUPS = (
    squad_options.SquadOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.FineTuningOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)


def main(argv: Sequence[str] | None = None) -> int:
    return app.run(squad, GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
