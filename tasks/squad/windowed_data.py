"""The windows of question sets, what is answered in them, and what the answers score."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np

import tokenization
from command_line import errors
from tasks.squad import answers as squad_answers
from tasks.squad import data as squad_data
from tasks.squad import features as squad_features
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import scores as squad_scores
from training import batching

_log = logging.getLogger(__name__)


class WindowedData:
    """Question sets cut into windows, made when a set is first asked for.

    ``lengths`` are what windows are padded to; empty: the longest of each batch.
    """

    def __init__(
        self,
        task: squad_options.SquadOptions,
        data: squad_data.SquadData,
        tokenizer: tokenization.FullTokenizer,
        lengths: Sequence[int] = (),
    ):
        self._task = task
        self._data = data
        self._tokenizer = tokenizer
        self._lengths = lengths
        self._features: dict[str, squad_features.Features] = {}

    def features(self, part: str) -> squad_features.Features:
        """The windows of a set."""
        if part not in self._features:
            self._features[part] = self._build(part)
        return self._features[part]

    def _build(self, part: str) -> squad_features.Features:
        examples = self._data.examples[part]
        features = squad_features.build(examples, self._tokenizer, self._task)
        for row in np.flatnonzero(features.example_index < self._task.log_examples):
            for line in self._log_lines(features, int(row), part == "train"):
                _log.info("%s", line)
        if part != "train":
            counts = len(examples.questions), len(features.example_index)
            _log.info("%d questions, %d windows", *counts)
            return features
        for line in squad_features.summarize(examples, features).lines():
            _log.info("%s", line)
        if self._task.whole_answer_windows_only:
            features = squad_features.with_whole_answer(features)
            line = "training on the %d windows with a whole answer or none to find"
            _log.info(line, len(features.example_index))
        if not len(features.example_index):
            raise errors.UserError(
                f"--train_file={self._task.train_file}: no window is left to train on; expected "
                "contexts with text, and answers that fit --max_seq_length and of which the "
                "tokenizer leaves something"
            )
        return features

    def _log_lines(
        self, features: squad_features.Features, row: int, is_training: bool
    ) -> Iterator[str]:
        """The lines that the original release logged of a window, without its padding."""
        ids = features.input_ids.row(row).tolist()
        tokens = self._tokenizer.convert_ids_to_tokens(ids)
        words, best = features.token_to_orig_map(row), features.token_is_max_context(row)
        places = np.flatnonzero(words >= 0)

        def numbers(values: Sequence[int]) -> str:
            return " ".join(map(str, values))

        yield "*** Example ***"
        yield f"unique_id: {features.unique_ids[row]}"
        yield f"example_index: {features.example_index[row]}"
        yield f"doc_span_index: {features.doc_span_index[row]}"
        yield f"tokens: {' '.join(tokens)}"
        yield "token_to_orig_map: " + " ".join(f"{at}:{words[at]}" for at in places)
        yield "token_is_max_context: " + " ".join(f"{at}:{best[at]}" for at in places)
        yield f"input_ids: {numbers(ids)}"
        yield f"input_mask: {numbers([1] * len(ids))}"
        yield f"segment_ids: {numbers(features.segment_ids.row(row).tolist())}"
        if is_training and features.is_impossible[row]:
            yield "impossible example"
        elif is_training:
            start, end = int(features.start_positions[row]), int(features.end_positions[row])
            yield f"start_position: {start}"
            yield f"end_position: {end}"
            yield f"answer: {' '.join(tokens[start : end + 1])}"

    def batches(
        self, part: str, batch_size: int, seed: int | None = None
    ) -> batching.FeatureBatches:
        """Batches of a set's windows: endless and shuffled with a seed, else each window once."""
        features = self.features(part)
        targets = ("start_positions", "end_positions") if part == "train" else ()
        names = ("input_ids", "segment_ids", *targets)
        return batching.FeatureBatches(
            {name: getattr(features, name) for name in names},
            batch_size=batch_size,
            seed=seed,
            lengths=self._lengths,
        )

    def answers(self, part: str, logits: squad_logits.Logits) -> squad_answers.Answers:
        """The answers to a set's questions, at a threshold of 0 where that is to be tuned."""
        return squad_answers.answer(
            self._data.examples[part], self.features(part), logits, self._tokenizer, self._task
        )

    def scores(self, part: str, answers: squad_answers.Answers) -> dict[str, float]:
        """The scores of the official scripts."""
        references = self._data.references[part]
        if not self._task.version_2_with_negative:
            return squad_scores.score_v1(references, answers.predictions)
        return squad_scores.score_v2(references, answers.predictions, answers.null_odds)

    def tune(self, part: str, answers: squad_answers.Answers) -> tuple[float, float]:
        """The threshold with the best F1 on a set, and that F1."""
        return squad_scores.tune_threshold(
            self._data.references[part], answers.best_texts(), answers.null_odds
        )
