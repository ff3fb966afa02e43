"""Answers to the questions of a run, by one model or several, at the threshold asked for."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from checkpoints import file_names, restore
from command_line import errors
from tasks.squad import answers as squad_answers
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import threshold, windowed_data
from training import evaluation, fine_tuning_flags, loop

_log = logging.getLogger(__name__)


class Predictor:
    """Answers the questions of a run at the threshold that the flags ask for.

    Several ``members``, which --init_checkpoint names, answer together; else the model that the
    trainer has does.
    """

    def __init__(
        self,
        trainer: loop.Trainer,
        data: windowed_data.WindowedData,
        flags: fine_tuning_flags.FineTuningFlags,
        members: Sequence[str],
    ):
        self._trainer = trainer
        self._data = data
        self._task: squad_options.SquadOptions = flags.task
        self._run = flags.run
        self._init_checkpoints = members
        self._members = members if len(members) > 1 else ()
        self._tuned: tuple[float, float] | None = None
        self._cached: tuple[Any, squad_answers.Answers] | None = None

    def _model(self) -> str:
        """The digest of the models that answer."""
        if not self._members:
            variables = self._trainer.state.variables
            weights = {name: variables[name].numpy() for name in threshold.WEIGHTS}
            return threshold.digest([weights])
        checkpoints = map(restore.open_checkpoint, self._members)
        return threshold.digest(weights.read(threshold.WEIGHTS) for weights in checkpoints)

    def _kept_threshold(self) -> float:
        """What an earlier run found for the model."""
        checkpoints = [self._run.named_checkpoint, *self._init_checkpoints]
        directories = [*file_names.run_directories(checkpoints), self._run.output_dir]
        match = threshold.find(directories, self._model())
        if match is None:
            raise errors.UserError(
                "--null_score_diff_threshold=auto: no null_threshold.json in "
                f"{' or '.join(directories)}; give a --dev_file to tune it on"
            )
        _log.info("null_score_diff_threshold %s of %s", *match)
        return match[0]

    def answers(self, part: str) -> squad_answers.Answers:
        """The answers to the questions of a set; asked again for the same model, the same ones."""
        state = self._trainer.state
        model = self._members or (state.loaded_checkpoint, state.step)
        if self._cached is None or self._cached[0] != (model, part):
            self._cached = ((model, part), self._answer(part))
        return self._cached[1]

    def _answer(self, part: str) -> squad_answers.Answers:
        kept = None
        if self._task.tunes_threshold and not self._task.dev_file:
            kept = self._kept_threshold()  # before the long work, should there be none
        answers = self._data.answers(part, self._logits(part))
        if kept is not None:
            return answers.with_threshold(kept)
        if not self._task.tunes_threshold:
            return answers
        is_dev = part == "dev" or self._task.dev_file == self._task.predict_file
        on_dev = answers if is_dev else self._data.answers("dev", self._logits("dev"))
        self._tuned = self._data.tune("dev", on_dev)
        return answers.with_threshold(self._tuned[0])

    def _logits(self, part: str) -> squad_logits.Logits:
        """The model's, or the mean of all models'."""
        if not self._members:
            return self._predicted(part)
        models = []
        for member in self._members:
            self._trainer.state.ensure_loaded(member, "--init_checkpoint")
            try:
                models.append(self._predicted(part))
            except errors.UserError as error:
                raise errors.UserError(f"--init_checkpoint={member}: {error}") from None
        return squad_logits.average(models)

    def _predicted(self, part: str) -> squad_logits.Logits:
        """Logits of the trainer's model for each window of a set."""
        features = self._data.features(part)
        lengths = features.input_ids.lengths

        def windows() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
            batches = self._data.batches(part, self._task.predict_batch_size)
            outputs = self._trainer.task.outputs  # type: ignore[attr-defined]
            action = "evaluated" if part == "dev" else "predicted"
            for rows, logits in self._trainer.predict(batches, outputs, action):
                sides = (logits["start_logits"], logits["end_logits"])
                for row, start, end in zip(rows.tolist(), *sides, strict=True):
                    yield row, start[: lengths[row]], end[: lengths[row]]

        return squad_logits.collect(features, windows() if len(lengths) else ())

    def keep_threshold(self) -> None:
        """Writes the threshold that was tuned, if one was."""
        if not self._tuned or not self._trainer.is_chief:
            return
        step = 0 if self._members else self._trainer.step
        path = f"{evaluation.results_stem(self._trainer, self._run, 'null_threshold')}.json"
        (value, f1), self._tuned = self._tuned, None
        dev_file, model = self._task.dev_file, self._model()
        threshold.write(path, value, f1=f1, dev_file=dev_file, step=step, model=model)
