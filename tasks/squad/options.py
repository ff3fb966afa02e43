"""The flags that only run_squad.py and convert_to_squad.py have."""

import dataclasses
import math

from command_line import errors, options
from training import fine_tuning_flags

# What the task writes into --output_dir; see outputs.check_data.
OUTPUT_FILES = (
    "predictions.json", "nbest_predictions.json", "null_odds.json", "null_threshold*.json",
)  # fmt: skip

ANSWER_POLICIES = ("error", "first", "shortest", "all")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(options.Group):
    """Questions and answers"""

    train_file: str = options.flag("", "Questions to train on, a JSON file in the layout of SQuAD.")
    predict_file: str = options.flag("", "Questions to predict and, with --do_eval, to score.")
    dev_file: str = options.flag(
        "",
        "Questions for --eval_steps (unset: --predict_file) and for "
        "--null_score_diff_threshold=auto.",
    )
    max_seq_length: int = options.flag(
        384, "Most tokens of a window: question, a part of the context, special tokens.", minimum=4
    )
    doc_stride: int = options.flag(
        128, "Pieces from the start of a window of a long context to the next one's.", minimum=1
    )
    max_query_length: int = options.flag(
        64, "Most pieces of a question; the rest is cut off.", minimum=0
    )
    do_predict: bool = options.flag(
        False,
        "Answer the questions of --predict_file; writes predictions.json. Several models, comma "
        "separated in --init_checkpoint, answer together: their logits are averaged.",
    )
    do_eval: bool = options.flag(
        False,
        "Score the answers to --predict_file by the official rules; writes eval_results.txt and "
        "eval_results.json.",
    )
    do_export: bool = options.flag(False, "Write a SavedModel to <output_dir>/export.")
    predict_batch_size: int = options.flag(8, "Windows in a prediction batch.", minimum=1)
    n_best_size: int = options.flag(20, "Candidates in nbest_predictions.json.", minimum=1)
    max_answer_length: int = options.flag(30, "Most pieces of an answer.", minimum=1)
    version_2_with_negative: bool = options.flag(
        False, "Questions may have no answer, as in SQuAD 2.0; the answer is then empty."
    )
    null_score_diff_threshold: str = options.flag(
        "0.0",
        "Version 2: there is no answer where its score exceeds that of the best one by more than "
        "this. 'auto' finds the threshold with the best F1 on --dev_file and keeps it in "
        "<output_dir>/null_threshold.json; without --dev_file it takes that of the file.",
    )
    answer_policy: str = options.flag(
        "error",
        "Training takes one answer a question. Where there are more: stop; take the first or the "
        "shortest; or make all distinct ones examples.",
        choices=ANSWER_POLICIES,
    )
    whole_answer_windows_only: bool = options.flag(
        False,
        "Leave out training windows that have not all of their answer. Unset: they are trained to "
        "[CLS], as released.",
    )
    nbest_offsets: bool = options.flag(
        False, "Add start and end, characters of the context, to nbest_predictions.json."
    )
    answer_texts: str = options.flag(
        "aligned",
        "What an answer is where the tokenizer changes the number of characters, as by stripping "
        "combining marks. aligned: the characters that its pieces were made of; original: all of "
        "their words, as released.",
        choices=("aligned", "original"),
    )
    exact_answer_texts: bool = options.flag(
        False,
        "Cut answers out of the context exactly where their pieces are. Unset: as released, which "
        "takes whole words where pieces are not found, such as words with [UNK].",
    )
    ensure_ascii: bool = options.flag(
        True, "Write other characters as \\uXXXX to the JSON files; false: as they are, in UTF-8."
    )
    verbose_logging: bool = options.flag(False, "Log answers that stand for whole words.")
    log_examples: int = options.flag(20, "Questions of each set to log in full.", minimum=0)
    num_workers: int = options.flag(
        0, "Processes that make windows; 0 takes one a core for long texts.", minimum=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_seq_length <= self.max_query_length + 3:
            raise errors.FlagError(
                f"--max_seq_length={self.max_seq_length} leaves no room for the context: expected "
                f"more than --max_query_length + 3 = {self.max_query_length + 3}"
            )
        if self.exact_answer_texts and self.answer_texts == "original":
            raise errors.FlagError(
                "--exact_answer_texts contradicts --answer_texts=original; leave one out"
            )
        threshold = self.null_score_diff_threshold
        try:
            is_number = math.isfinite(float(threshold))
        except ValueError:
            is_number = False
        if not is_number and not self.tunes_threshold:
            raise errors.FlagError(
                f"--null_score_diff_threshold={threshold}: expected a finite number or auto"
            )
        for flag in ("do_predict", "do_eval"):
            if getattr(self, flag) and not self.predict_file:
                raise errors.FlagError(f"--predict_file is missing; --{flag} needs it")
        if self.tunes_threshold and not self.version_2_with_negative:
            raise errors.FlagError(
                "--null_score_diff_threshold=auto does nothing without --version_2_with_negative; "
                "add it"
            )

    @property
    def tunes_threshold(self) -> bool:
        """Whether the threshold is found, on --dev_file or by an earlier run."""
        return self.null_score_diff_threshold == "auto"


GROUPS = (SquadOptions, *fine_tuning_flags.SHARED_GROUPS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions(options.Group):
    """Questions to convert"""

    input_format: str = options.flag(
        "",
        "triviaqa: a question file of TriviaQA's Wikipedia part; mrqa: JSON lines of MRQA 2019.",
        required=True,
        choices=("triviaqa", "mrqa"),
    )
    input_file: str = options.flag("", "The file to convert; .gz is read.", required=True)
    output_file: str = options.flag("", "The JSON file to write.", required=True)
    evidence_dir: str = options.flag(
        "", "triviaqa: folder of the documents, such as evidence/wikipedia."
    )
    max_tokens: int = options.flag(
        400, "triviaqa: tokens that are taken of a document, from its beginning.", minimum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.input_format == "triviaqa") != bool(self.evidence_dir):
            raise errors.FlagError(
                f"--evidence_dir={self.evidence_dir} does nothing with --input_format=mrqa"
                if self.evidence_dir
                else "--evidence_dir is missing; --input_format=triviaqa needs the folder of its "
                "documents"
            )
        if self.input_format == "mrqa" and self.max_tokens != ConvertOptions.max_tokens:
            raise errors.FlagError(
                f"--max_tokens={self.max_tokens} does nothing with --input_format=mrqa, which has "
                "no documents; leave it out"
            )
