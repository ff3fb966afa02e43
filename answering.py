"""Answers to the questions of a run, by one model or several, at the threshold asked for."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

import checkpoint_files
import errors
import evaluation
import options
import training
from tasks import question_answering, squad_answers, squad_data, squad_logits

_log = logging.getLogger(__name__)


class Answering:
    """Answers of the models at hand, at the threshold that the flags ask for.

    Args:
      trainer: of the model.
      data: the sets.
      task, run: the flags.
      members: models of an ensemble; one or none: the model is the one at hand.

    Raises:
      errors.UserError: a threshold that an earlier run should have left is not there.
    """

    def __init__(
        self,
        trainer: training.Trainer,
        data: squad_data.SquadData,
        task: options.SquadOptions,
        run: options.RunOptions,
        members: Sequence[str],
    ):
        self._trainer = trainer
        self._data = data
        self._task = task
        self._run = run
        self._members = members if len(members) > 1 else ()
        self._is_auto = task.null_score_diff_threshold == "auto"
        self._stored = None
        if task.version_2_with_negative and not task.dev_file:
            self._stored = self._find_threshold(members)
        self._same_file = bool(task.dev_file) and task.dev_file == task.predict_file
        self._tuned: tuple[float, float] | None = None

    def _find_threshold(self, members: Sequence[str]) -> squad_data.Threshold | None:
        """What an earlier run left, if it is wanted."""
        places = [
            self._run.output_dir,
            *checkpoint_files.run_directories([self._run.eval_checkpoint, *members]),
        ]
        found = squad_data.read_threshold(places)
        if found is None and self._is_auto:
            raise errors.UserError(
                "--null_score_diff_threshold=auto: no null_threshold.json in "
                f"{' or '.join(places)}; give a --dev_file to tune it on"
            )
        if found and not self._is_auto:
            _log.info(
                "%s has a tuned threshold, %s, which --null_score_diff_threshold=auto would use",
                found.path,
                found.value,
            )
            return None
        if found:
            step = self._trainer.step
            _log.info("null_score_diff_threshold %s of %s", found.value, found.path)
            if step and found.step and step != found.step:
                _log.warning(
                    "%s was tuned at step %d, and the model is of step %d; tune it again with "
                    "--dev_file",
                    found.path,
                    found.step,
                    step,
                )
        return found

    def scores(self, part: str) -> dict[str, float]:
        """Scores of the model at hand on a set."""
        return self._data.scores(part, self._answers(part))

    def finish(self) -> None:
        """Predicts and scores what the flags ask for, with the checkpoints that they name."""
        task = self._task
        answers_wanted = task.do_predict or task.do_eval
        if not answers_wanted and not (self._is_auto and task.dev_file):
            return
        chosen: Sequence[str | None] = [None]  # the members, one after the other
        if not self._members:
            chosen = evaluation.chosen(self._run)[slice(None) if task.do_eval else slice(-1, None)]
        for checkpoint in chosen:
            if checkpoint is not None:
                self._trainer.use(checkpoint)
            answers = self._answers("predict" if answers_wanted else "dev")
            self._keep_threshold()
            if task.do_eval:
                self._write_scores(self._data.scores("predict", answers))
        if task.do_predict and self._trainer.is_chief:
            self._write(answers)

    def _answers(self, part: str) -> squad_answers.Answers:
        answers = self._data.answers(part, self._logits(part))
        if not self._is_auto:
            return answers
        if self._stored:
            return answers.with_threshold(self._stored.value)
        is_dev = part == "dev" or self._same_file
        on_dev = answers if is_dev else self._data.answers("dev", self._logits("dev"))
        self._tuned = self._data.tune("dev", on_dev)
        return answers.with_threshold(self._tuned[0])

    def _logits(self, part: str) -> squad_logits.Logits:
        """The model's, or the mean of all models'."""
        if not self._members:
            return self._predicted(part)
        found = []
        for member in self._members:
            self._trainer.use(member)
            found.append(self._predicted(part))
        return squad_logits.average(found)

    def _predicted(self, part: str) -> squad_logits.Logits:
        """Logits of the model at hand for each window of a set."""
        features = self._data.features(part)

        def results() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
            if not len(features.example_index):
                return
            batches = self._data.batches(part, self._task.predict_batch_size)
            outputs = cast(question_answering.QuestionAnswering, self._trainer.task).outputs
            for rows, found in self._trainer.predict(batches, outputs):
                sides = (found["start_logits"], found["end_logits"])
                yield from squad_data.cut_to_windows(features, rows, *sides)

        return squad_logits.collect(features, results())

    # ------------------------------------------------------------------ files

    def _keep_threshold(self) -> None:
        if self._tuned and self._trainer.is_chief:
            step = 0 if self._members else self._trainer.step
            squad_data.write_threshold(
                self._run.output_dir, *self._tuned, self._task.dev_file, step
            )

    def _write_scores(self, scores: dict[str, float]) -> None:
        if not self._members:
            scores = {**scores, "global_step": self._trainer.step}
        stem = evaluation.write(self._trainer, self._run, "eval_results", scores)
        if self._trainer.is_chief:
            text = json.dumps(scores, indent=2, sort_keys=True) + "\n"
            checkpoint_files.write_text(f"{stem}.json", text)

    def _write(self, answers: squad_answers.Answers) -> None:
        squad_answers.write(
            self._run.output_dir,
            answers,
            offsets=self._task.nbest_offsets,
            ensure_ascii=self._task.ensure_ascii,
        )
        _log.info(
            "wrote the answers to %d questions to %s",
            len(answers.predictions),
            os.path.join(self._run.output_dir, "predictions.json"),
        )
