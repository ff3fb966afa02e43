"""Fine-tuning on questions over a context: what run_squad adds to the driver."""

import json
import logging
import os
from typing import Any

import modeling
from serving import export
from system import atomic_files
from tasks.squad import data as squad_data
from tasks.squad import ensemble, prediction_files, predictor, windowed_data
from tasks.squad import task as squad_task
from training import batching, compatibility, evaluation, fine_tuning, fine_tuning_flags, run_state

_log = logging.getLogger(__name__)


def run(data: squad_data.SquadData, *groups: Any) -> None:
    """Trains, predicts, scores and exports as the flags say.

    Args:
      data: what ``tasks.squad.data.read`` returned.
      *groups: as in ``fine_tuning_flags.FineTuningFlags``.

    Raises:
      errors.UserError: checkpoints or sizes that do not fit, a loss that is not finite.
    """
    SquadFineTuning(fine_tuning_flags.FineTuningFlags(*groups), data).run()


class SquadFineTuning(fine_tuning.FineTuning):
    """See ``fine_tuning.FineTuning``; the sets are "train", "dev" and "predict"."""

    head_scopes = ("cls/squad/",)
    data: squad_data.SquadData

    def __init__(self, flags: fine_tuning_flags.FineTuningFlags, data: squad_data.SquadData):
        super().__init__(flags, data)
        self._windows = windowed_data.WindowedData(flags.task, data, self.tokenizer, self.lengths)
        self._predictor = predictor.Predictor(self.trainer, self._windows, self.flags, data.members)

    @property
    def init_checkpoint(self) -> str:
        """What the driver looks at and begins with: of an ensemble the first model."""
        return self.data.members[0] if self.data.members else ""

    @property
    def _is_ensemble(self) -> bool:
        return len(self.data.members) > 1

    def head(self) -> compatibility.Head:
        return compatibility.Head(
            "squad",
            "start and end of an answer",
            2,
            self.flags.tuning.head,
            self.config.attention,
            "cls/squad/output_weights",
        )

    def check_checkpoints(self, head: compatibility.Head) -> None:
        if self._is_ensemble:
            ensemble.check(self.data.members, self.flags, self.config)
        for member in self.data.members or [""]:
            compatibility.check_head(head, member, self.flags.tuning, self.flags.run)

    def build_task(
        self, encoder: modeling.BertModel, frozen: tuple[str, ...]
    ) -> squad_task.QuestionAnswering:
        model = modeling.SpanModel(encoder, bilstm=self.flags.tuning.head == "bilstm")
        self._task = squad_task.QuestionAnswering(model, frozen)
        return self._task

    def load_weights(self, origin: compatibility.Origin) -> None:
        if self._is_ensemble:
            ensemble.check_trained(self.data.members, self.trainer.state)
            self.trainer.state.ensure_loaded(self.data.members[0], "--init_checkpoint")
        else:
            super().load_weights(origin)

    def load(self, checkpoint: str) -> None:
        if not self._is_ensemble:  # whose models the predictor loads, one after the other
            super().load(checkpoint)

    @property
    def num_train_examples(self) -> int:
        """Questions, not windows, as the original release counted steps."""
        return len(self.data.examples["train"].questions)

    def batches(
        self, part: str, batch_size: int, seed: int | None = None
    ) -> batching.FeatureBatches:
        return self._windows.batches(part, batch_size, seed)

    # ------------------------------------------------------------------ results

    @property
    def best(self) -> run_state.BestMetric:
        return run_state.BestMetric("f1", higher=True)

    def dev_scores(self) -> dict[str, float]:
        part = "dev" if self.flags.task.dev_file else "predict"
        return self._windows.scores(part, self._predictor.answers(part))

    def use(self) -> None:
        super().use()
        task = self.flags.task
        if task.tunes_threshold and task.dev_file and not (task.do_eval or task.do_predict):
            self.load(evaluation.selected_checkpoints(self.flags.run)[-1])
            self._predictor.answers("dev")
            self._predictor.keep_threshold()

    def evaluate(self) -> dict[str, dict[str, float]]:
        """Scores the answers; writes eval_results.json, the same as the text file."""
        answers = self._predictor.answers("predict")
        self._predictor.keep_threshold()
        scores = self._windows.scores("predict", answers)
        if not self._is_ensemble:
            scores["global_step"] = self.trainer.step
        if self.trainer.is_chief:
            stem = evaluation.results_stem(self.trainer, self.flags.run, "eval_results")
            text = json.dumps(scores, indent=2, sort_keys=True) + "\n"
            atomic_files.write_text(f"{stem}.json", text)
        return {"eval_results": scores}

    def predict(self) -> None:
        """Writes predictions.json and the files beside it."""
        answers = self._predictor.answers("predict")
        self._predictor.keep_threshold()
        if not self.trainer.is_chief:
            return
        directory = self.flags.run.output_dir
        prediction_files.write(directory, answers, self.flags.task)
        path = os.path.join(directory, "predictions.json")
        _log.info("wrote the answers to %d questions to %s", len(answers.predictions), path)

    def export(self, path: str) -> None:
        export.save_span_model(path, self._task, self.flags.text)
