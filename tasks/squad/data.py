"""The question sets of a run: which files they come from, their questions and right answers."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from command_line import errors
from system import inputs, outputs
from tasks.squad import examples as squad_examples
from tasks.squad import json_layout, prediction_files
from tasks.squad import options as squad_options
from tasks.squad import scores as squad_scores
from training import fine_tuning_flags

_log = logging.getLogger(__name__)


def read(*groups: Any) -> "SquadData":
    """Checks the flags of run_squad, and reads the sets that the run needs.

    Args:
      *groups: as in ``fine_tuning_flags.FineTuningFlags``.

    Raises:
      errors.FlagError: flags that contradict each other.
      errors.UserError: files that are missing, or of another layout than SQuAD's.
    """
    flags = fine_tuning_flags.FineTuningFlags(*groups)
    flags.check()
    _check_files(flags)
    members = _members(flags.model.init_checkpoint)
    if len(members) > 1:
        _check_ensemble(flags, members)
    task, run = flags.task, flags.run
    if task.do_predict:
        prediction_files.check_places(run.output_dir, task.version_2_with_negative)
    scored = {}  # the sets that are needed, and whether their right answers are
    if flags.tuning.do_train:
        scored["train"] = False
    if task.dev_file:  # given only to be scored; see _check_files
        scored["dev"] = True
    scores_predict = task.do_eval or bool(run.eval_steps and not task.dev_file)
    if task.do_predict or scores_predict:
        scored["predict"] = scores_predict
    data = SquadData(task, members)
    for part in scored:  # a wrong path shows before a large file is read
        path = data.find(part)
        outputs.check_data(run.output_dir, f"{part}_file", [path], squad_options.OUTPUT_FILES)
    for part, is_scored in scored.items():
        data.read(part, scored=is_scored)
    return data


def _check_files(flags: fine_tuning_flags.FineTuningFlags) -> None:
    """Requires the files that the run reads, and refuses one that it would not."""
    task, do_train = flags.task, flags.tuning.do_train
    threshold = task.null_score_diff_threshold
    if not task.version_2_with_negative and float(threshold):
        _log.warning(
            "--null_score_diff_threshold=%s does nothing without --version_2_with_negative",
            threshold,
        )
    if do_train and not task.train_file:
        raise errors.FlagError("--train_file is missing; --do_train needs it")
    if flags.run.eval_steps and not (task.dev_file or task.predict_file):
        raise errors.FlagError("--dev_file is missing; --eval_steps needs it, or --predict_file")
    if task.dev_file and not (flags.run.eval_steps or task.tunes_threshold):
        raise errors.FlagError(
            "--dev_file does nothing without --eval_steps or --null_score_diff_threshold=auto"
        )
    if task.tunes_threshold and do_train and not task.dev_file:
        raise errors.FlagError(
            "--dev_file is missing; --null_score_diff_threshold=auto needs it with --do_train"
        )
    if task.tunes_threshold and not (do_train or task.do_predict or task.do_eval or task.dev_file):
        raise errors.FlagError(
            "--null_score_diff_threshold=auto does nothing without --do_predict or --do_eval"
        )


def _members(init_checkpoint: str) -> tuple[str, ...]:
    """The models that --init_checkpoint names: none, one, or those of an ensemble."""
    if os.path.exists(init_checkpoint) or os.path.exists(f"{init_checkpoint}.index"):
        return (init_checkpoint,)  # it may have a comma in its name
    if not init_checkpoint:
        return ()
    members = tuple(path.strip() for path in init_checkpoint.split(","))
    if not all(members):
        raise errors.FlagError(
            f"--init_checkpoint={init_checkpoint}: there is no name before or after a comma"
        )
    repeated = [member for member in members if members.count(member) > 1]
    if repeated:
        raise errors.FlagError(f"--init_checkpoint names {repeated[0]} more than once")
    return members


def _check_ensemble(flags: fine_tuning_flags.FineTuningFlags, members: Sequence[str]) -> None:
    """Refuses what several models cannot do together."""
    refused = {
        "do_train": flags.tuning.do_train,
        "do_export": flags.task.do_export,
        "eval_checkpoint": flags.run.eval_checkpoint,
    }
    for flag in filter(refused.get, refused):
        raise errors.FlagError(
            f"--init_checkpoint names {len(members)} models ({', '.join(members)}), which can "
            f"only predict together; --{flag} takes one"
        )


class SquadData:
    """The question sets "train", "dev" and "predict", each of the file that its flag names.

    Attributes:
      members: what --init_checkpoint names; several answer together.
      examples: questions of the sets that were read.
      references: right answers by question id, of the sets that are to be scored.
    """

    def __init__(self, task: squad_options.SquadOptions, members: Sequence[str] = ()):
        self._task = task
        self.members = tuple(members)
        self.examples: dict[str, squad_examples.Examples] = {}
        self.references: dict[str, dict[str, list[str]]] = {}

    def find(self, part: str) -> str:
        """The file of a set.

        Raises:
          errors.UserError: there is no such file.
          errors.FlagError: there are several.
        """
        flag = f"{part}_file"
        paths = inputs.expand(flag, getattr(self._task, flag))
        if len(paths) > 1:
            raise errors.FlagError(f"--{flag} names {len(paths)} files; give one")
        return paths[0]

    def read(self, part: str, *, scored: bool = False) -> None:
        """Reads the questions of a set, and the right answers where they are to be scored.

        Raises:
          errors.UserError: see ``find``; or the file has another layout than SQuAD's, or answers
            that do not fit the flags.
        """
        path, version_2 = self.find(part), self._task.version_2_with_negative
        data = json_layout.load_questions(path)
        examples = squad_examples.parse(
            data,
            path,
            is_training=part == "train",
            version_2_with_negative=version_2,
            answer_policy=self._task.answer_policy,
        )
        if part == "train":
            examples = squad_examples.shuffled(examples)
        self.examples[part] = examples
        if scored:
            self.references[part] = squad_scores.references(
                data, path, version_2_with_negative=version_2
            )
        _log.info("%s: %d questions", path, len(examples.questions))
