"""Fine-tuning on texts and pairs of texts: what run_classifier adds to the driver."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

import modeling
from serving import export
from system import atomic_files
from tasks.classifier import data as classifier_data
from tasks.classifier import features as classifier_features
from tasks.classifier import task as classifier_task
from training import batching, compatibility, fine_tuning, fine_tuning_flags, label_files, run_state

_log = logging.getLogger(__name__)


def run(data: classifier_data.ClassifierData, *groups: Any) -> None:
    """Trains, evaluates, predicts and exports as the flags say.

    Args:
      data: what ``tasks.classifier.data.read`` returned.
      *groups: as in ``fine_tuning_flags.FineTuningFlags``.

    Raises:
      errors.UserError: checkpoints or sizes that do not fit, a loss that is not finite.
    """
    ClassifierFineTuning(fine_tuning_flags.FineTuningFlags(*groups), data).run()


class ClassifierFineTuning(fine_tuning.FineTuning):
    """See ``fine_tuning.FineTuning``; the sets are called as in ``ClassifierData``."""

    data: classifier_data.ClassifierData

    def __init__(
        self, flags: fine_tuning_flags.FineTuningFlags, data: classifier_data.ClassifierData
    ):
        self._features: dict[str, classifier_features.Features] = {}
        super().__init__(flags, data)

    def head(self) -> compatibility.Head:
        return compatibility.Head(
            self.data.name,
            self.data.signature,
            len(self.data.labels) or 1,
            self.flags.tuning.head,
            self.config.attention,
            labels=tuple(self.data.labels),
        )

    def build_task(
        self, encoder: modeling.BertModel, frozen: tuple[str, ...]
    ) -> classifier_task.Classification:
        model = modeling.ClassifierModel(
            encoder, self.head().num_outputs, bilstm=self.flags.tuning.head == "bilstm"
        )
        self._task = classifier_task.Classification(model, self.data.kind, frozen)
        return self._task

    @property
    def num_train_examples(self) -> int:
        return len(self.data.examples["train"])

    def batches(
        self, part: str, batch_size: int, seed: int | None = None
    ) -> batching.FeatureBatches:
        features = self._encoded(part)._asdict()
        return batching.FeatureBatches(
            features, batch_size=batch_size, seed=seed, lengths=self.lengths
        )

    def _encoded(self, part: str) -> classifier_features.Features:
        """The features of a set, made when they are first asked for."""
        if part not in self._features:
            self._features[part] = classifier_features.encode(
                self.data.examples[part],
                self.data.labels,
                self.flags.task,
                self.tokenizer,
                self.data.kind,
                labelled=part not in self.data.tests,
            )
        return self._features[part]

    def describe(self) -> None:
        super().describe()
        label_files.write_labels(self.flags.run.output_dir, self.data.labels)

    # ------------------------------------------------------------------ results

    @property
    def best(self) -> run_state.BestMetric:
        return run_state.BestMetric(self.data.metrics[0], higher=True)

    def dev_scores(self) -> dict[str, float]:
        scores = self._scores("eval_results")
        del scores["global_step"]
        # metrics.jsonl puts eval_ in front of all names.
        return {name.removeprefix("eval_"): value for name, value in scores.items()}

    def evaluate(self) -> Mapping[str, Mapping[str, float]]:
        label = self.data.f1_label
        about_f1: dict[str, Any] = {"eval_f1_label": label} if label else {}
        return {name: {**self._scores(name), **about_f1} for name in self.data.devs}

    def _scores(self, name: str) -> dict[str, float]:
        logits = self._logits(name, self.flags.task.eval_batch_size, "evaluated")
        labels = self._encoded(name).label_ids
        kind, names, positive = self.data.kind, self.data.metrics, self.data.positive
        scores = classifier_task.results(logits, labels, kind, names, positive)
        self.trainer.check_loss(scores["loss"])
        return {**scores, "global_step": self.trainer.step}

    def _logits(self, name: str, batch_size: int, action: str = "predicted") -> np.ndarray:
        """float32 [N, L], in the order of the examples of a set."""
        batches = self.batches(name, batch_size)
        return self.predictions(batches, self._task.outputs, "logits", action)

    def predict(self) -> None:
        """Writes <set>.tsv, a line for each example, for each test set."""
        for name in self.data.tests:
            logits = self._logits(name, self.flags.task.predict_batch_size)
            if not self.trainer.is_chief:
                continue
            rows = classifier_task.probabilities(logits, self.data.kind)
            path = os.path.join(self.flags.run.output_dir, f"{name}.tsv")
            # str of a NumPy float32 has the shortest digits that give it back.
            lines = ("\t".join(map(str, row)) for row in rows)
            atomic_files.write_text(path, "".join(f"{line}\n" for line in lines))
            _log.info("wrote %s: %d predictions", path, len(rows))

    def export(self, path: str) -> None:
        flags = self.flags
        export.save_classifier(
            path, self._task, self.data.labels, flags.text, flags.task.max_seq_length
        )
