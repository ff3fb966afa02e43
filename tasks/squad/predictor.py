"""Answers to the questions of a run, by one model or several, at the threshold asked for."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from checkpoints import file_names, restore
from command_line import errors, options
from system import atomic_files
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import prediction_files, threshold
from tasks.squad import task as squad_task
from training import evaluation, loop

_log = logging.getLogger(__name__)


class Answering:
    """Answers of the models at hand, at the threshold that the flags ask for.

    Args:
      trainer: of the model.
      data: the sets.
      task, run: the flags.
      members: what --init_checkpoint names; several answer together, else the model at hand does.
    """

    def __init__(
        self,
        trainer: loop.Trainer,
        data: squad_data.SquadData,
        task: squad_options.SquadOptions,
        run: options.RunOptions,
        members: Sequence[str],
    ):
        self._trainer = trainer
        self._data = data
        self._task = task
        self._run = run
        self._given = members
        self._members = members if len(members) > 1 else ()
        self._is_auto = task.null_score_diff_threshold == "auto"
        self._same_file = bool(task.dev_file) and task.dev_file == task.predict_file
        self._tuned: tuple[float, float] | None = None

    def _model(self) -> str:
        """The digest of the models that answer."""
        if not self._members:
            variables = self._trainer.variables
            weights = {name: variables[name].numpy() for name in threshold.WEIGHTS}
            return threshold.digest([weights])
        found = [restore.resolve(member) for member in self._members]
        return threshold.digest(member.read(threshold.WEIGHTS) for member in found)

    def _kept_threshold(self) -> float:
        """What an earlier run found for the model."""
        places = file_names.run_directories([self._run.named_checkpoint, *self._given])
        places.append(self._run.output_dir)
        found = threshold.find(places, self._model())
        if found is None:
            raise errors.UserError(
                "--null_score_diff_threshold=auto: no null_threshold.json in "
                f"{' or '.join(places)}; give a --dev_file to tune it on"
            )
        _log.info("null_score_diff_threshold %s of %s", found[0].value, found[1])
        return found[0].value

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
                self._trainer.ensure_loaded(checkpoint)
            answers = self._answers("predict" if answers_wanted else "dev")
            self._keep_threshold()
            if task.do_eval:
                self._write_scores(self._data.scores("predict", answers))
        if task.do_predict and self._trainer.is_chief:
            self._write(answers)

    def _answers(self, part: str) -> squad_answers.Answers:
        if self._is_auto and not self._task.dev_file:
            threshold = self._kept_threshold()  # before the long work, should there be none
            return self._data.answers(part, self._logits(part)).with_threshold(threshold)
        answers = self._data.answers(part, self._logits(part))
        if not self._is_auto:
            return answers
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
            self._trainer.ensure_loaded(member, "--init_checkpoint")
            found.append(self._predicted(part))
        return squad_logits.average(found)

    def _predicted(self, part: str) -> squad_logits.Logits:
        """Logits of the model at hand for each window of a set."""
        features = self._data.features(part)

        def results() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
            if not len(features.example_index):
                return
            batches = self._data.batches(part, self._task.predict_batch_size)
            outputs = cast(squad_task.QuestionAnswering, self._trainer.task).outputs
            for rows, found in self._trainer.predict(batches, outputs):
                sides = (found["start_logits"], found["end_logits"])
                yield from squad_data.cut_to_windows(features, rows, *sides)

        return squad_logits.collect(features, results())

    # ------------------------------------------------------------------ files

    def _keep_threshold(self) -> None:
        if not self._tuned or not self._trainer.is_chief:
            return
        step = 0 if self._members else self._trainer.step
        path = f"{evaluation.stem(self._trainer, self._run, 'null_threshold')}.json"
        found = threshold.Threshold(*self._tuned, self._task.dev_file, step, self._model())
        threshold.write(path, found)

    def _write_scores(self, scores: dict[str, float]) -> None:
        if not self._members:
            scores = {**scores, "global_step": self._trainer.step}
        stem = evaluation.write(self._trainer, self._run, "eval_results", scores)
        if self._trainer.is_chief:
            text = json.dumps(scores, indent=2, sort_keys=True) + "\n"
            atomic_files.write_text(f"{stem}.json", text)

    def _write(self, answers: squad_answers.Answers) -> None:
        prediction_files.write(
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
