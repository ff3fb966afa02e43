"""Which checkpoints a run evaluates or predicts with, and where the results go."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from checkpoints import manager, restore
from command_line import errors, options
from training import loop, run_files

_log = logging.getLogger(__name__)


def selected_checkpoints(run: options.RunOptions) -> list[str]:
    """The checkpoints that --eval_checkpoint means; the empty string is the newest there is.

    Raises:
      errors.UserError: it means none.
    """
    if run.eval_checkpoint == "all":
        checkpoints = manager.listed(run.output_dir)
        if not checkpoints:
            raise errors.UserError(f"--eval_checkpoint=all: no checkpoint in {run.output_dir}")
        return checkpoints
    if run.eval_checkpoint == "best":
        directory = os.path.join(run.output_dir, "best")
        best = manager.latest(directory)
        if not best:
            raise errors.UserError(
                f"--eval_checkpoint=best: no checkpoint in {directory}; --eval_steps with "
                "--do_train keeps one there"
            )
        return [best]
    return [run.eval_checkpoint]


def check_selection(run: options.RunOptions, trains: bool) -> None:
    """Finds out before the work whether there is, or will be, what --eval_checkpoint means.

    Raises:
      errors.UserError: it names no checkpoint.
      errors.FlagError: training will not keep a best one.
    """
    if run.named_checkpoint:
        restore.open_checkpoint(run.named_checkpoint, "--eval_checkpoint")
    best = os.path.join(run.output_dir, "best")
    is_kept = run.eval_steps or manager.latest(best)
    if trains and run.eval_checkpoint == "best" and not is_kept:
        raise errors.FlagError(
            "--eval_checkpoint=best: training keeps a best checkpoint with --eval_steps; add it"
        )


def evaluate_each(
    trainer: loop.Trainer,
    flags: Any,
    evaluate: Callable[[], Mapping[str, Mapping[str, float]]],
    load: Callable[[str], None] | None = None,
) -> None:
    """Evaluates the checkpoints that --eval_checkpoint means, and writes what comes out.

    Results of the newest one go to <output_dir>/<name>.txt, those of others to <name>-<step>.txt,
    so that they never stand for the newest. evaluation.json tells for each of these files which
    checkpoint it is about and with which flags it was made.

    Args:
      trainer: of the model.
      flags: the groups of the command, a NamedTuple with a field ``run``.
      evaluate: returns the results by name of their file, "eval_results" before all.
      load: gives the model the weights of a checkpoint; default ``RunState.ensure_loaded``.
    """
    for checkpoint in selected_checkpoints(flags.run):
        (load or trainer.state.ensure_loaded)(checkpoint)
        for name, results in evaluate().items():
            if trainer.is_chief:
                _write_results(trainer, flags, name, results)


def results_stem(trainer: loop.Trainer, run: options.RunOptions, name: str) -> str:
    """The path, without its ending, of a file about the weights that the model has."""
    step = f"-{trainer.step}" if run.eval_checkpoint else ""
    return os.path.join(run.output_dir, f"{name}{step}")


def _write_results(
    trainer: loop.Trainer, flags: Any, name: str, results: Mapping[str, float]
) -> None:
    """Logs and writes the results of the model as it is."""
    stem = results_stem(trainer, flags.run, name)
    for key, value in sorted(results.items()):
        _log.info("  %s = %s", key, run_files.format_value(value))
    run_files.write_results(f"{stem}.txt", results)
    run_files.note_evaluation(
        flags.run.output_dir,
        os.path.basename(stem),
        trainer.state.weights_path,
        run_files.flags_by_name(flags),
    )
    _log.info("wrote %s.txt", stem)
