"""The flags that every fine-tuning command shares, and what contradicts what. No TensorFlow."""

import os
from typing import Any, NamedTuple

from checkpoints import config_files
from command_line import errors, options
from system import outputs

# What a fine-tuning command has beside the group of its task, in the order of FineTuningFlags.
SHARED_GROUPS = (
    options.TokenizerOptions,
    options.ModelOptions,
    options.FineTuningOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)


def check_length(max_seq_length: int, positions: int, config_file: str) -> None:
    """Compares --max_seq_length with max_position_embeddings of a config file.

    Raises:
      errors.FlagError: the model has too few positions.
    """
    if max_seq_length > positions:
        raise errors.FlagError(
            f"Cannot use sequence length --max_seq_length={max_seq_length}: the model has "
            f"max_position_embeddings {positions} ({config_file})"
        )


def check_length_early(max_seq_length: int, config_file: str) -> None:
    """As ``check_length``, before any data are read; what else is wrong with the file shows later.

    A remote file is left to TensorFlow.
    """
    if "://" in config_file or not os.path.isfile(config_file):
        return
    try:
        positions = config_files.read(config_file).get("max_position_embeddings", 512)
    except errors.UserError:
        return
    if isinstance(positions, int):
        check_length(max_seq_length, positions, config_file)


class FineTuningFlags(NamedTuple):
    """One instance of each group.

    Attributes:
      task: the group of the task, with max_seq_length, do_predict, do_eval and do_export.
    """

    task: Any
    text: options.TokenizerOptions
    model: options.ModelOptions
    tuning: options.FineTuningOptions
    optimizer: options.OptimizerOptions
    run: options.RunOptions
    device: options.DeviceOptions

    @property
    def checkpoint_to_use(self) -> str:
        """--eval_checkpoint, where a run that does not train names a path with it."""
        return "" if self.tuning.do_train else self.run.named_checkpoint

    def check(self) -> None:
        """Finds contradictions that need no data, and an --output_dir that cannot be one.

        Raises:
          errors.FlagError: naming the flags, and what to add or leave out.
        """
        task, run = self.task, self.run
        if not (self.tuning.do_train or task.do_eval or task.do_predict or task.do_export):
            raise errors.FlagError(
                "nothing to do: give --do_train, --do_eval, --do_predict or --do_export"
            )
        if run.eval_steps and not self.tuning.do_train:
            raise errors.FlagError("--eval_steps does nothing without --do_train; add it")
        if run.eval_checkpoint == "all" and not task.do_eval:
            raise errors.FlagError("--eval_checkpoint=all does nothing without --do_eval; add it")
        if run.eval_checkpoint and not (task.do_eval or task.do_predict or task.do_export):
            raise errors.FlagError(
                f"--eval_checkpoint={run.eval_checkpoint} does nothing without --do_eval, "
                "--do_predict or --do_export; add one"
            )
        outputs.check_directory("output_dir", run.output_dir)
        check_length_early(task.max_seq_length, self.model.bert_config_file)
