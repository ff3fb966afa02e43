"""The flags of create_pretraining_data.py and run_pretraining.py."""

import dataclasses
import math
from typing import Any, NamedTuple

from command_line import errors, options
from system import outputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExampleSizes(options.Group):
    """Sizes on which the maker and the reader of pre-training records must agree"""

    max_seq_length: int = options.flag(
        128, "Tokens an example has, special tokens included.", minimum=5
    )
    max_predictions_per_seq: int = options.flag(20, "Most masked tokens an example has.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataOptions(_ExampleSizes):
    """Examples to make"""

    input_file: str = options.flag(
        "",
        "Raw text, one sentence a line, an empty line between documents. Comma separated; each "
        "item may be a pattern; .gz is read.",
        required=True,
    )
    text_key: str = options.flag(
        "",
        "The input has a JSON object a line; the text under this key is a document. Unset: plain "
        "text.",
    )
    output_file: str = options.flag(
        "", "TFRecord files to write, comma separated; examples go round robin.", required=True
    )
    do_whole_word_mask: bool = options.flag(False, "Mask all pieces of a word together.")
    whole_word_from_spaces: bool = options.flag(
        False,
        "With --do_whole_word_mask: words are what spaces separate in the input, not what ## "
        "joins. For Chinese text that was segmented beforehand.",
    )
    whole_word_one_decision: bool = options.flag(
        False,
        "With --do_whole_word_mask: all pieces of a word become [MASK], stay, or are replaced "
        "alike. Unset: each piece decides for itself, as released.",
    )
    random_seed: int = options.flag(12345, "Seed of everything drawn.")
    dupe_factor: int = options.flag(10, "Passes over the corpus, each with new masks.", minimum=1)
    masked_lm_prob: float = options.flag(
        0.15, "Share of the tokens chosen for prediction.", minimum=0.0, maximum=1.0
    )
    mask_token_share: float = options.flag(
        0.8, "Share of the chosen tokens shown as [MASK].", minimum=0.0, maximum=1.0
    )
    keep_token_share: float = options.flag(
        0.1, "Share of the chosen tokens shown unchanged.", minimum=0.0, maximum=1.0
    )
    random_token_share: float = options.flag(
        0.1, "Share of the chosen tokens shown as a random token.", minimum=0.0, maximum=1.0
    )
    short_seq_prob: float = options.flag(
        0.1, "Share of the examples made shorter on purpose.", minimum=0.0, maximum=1.0
    )
    no_nsp: bool = options.flag(
        False, "Examples of a single segment, without next-sentence pairs ([CLS] text [SEP])."
    )
    num_workers: int = options.flag(
        0, "Processes; 0 takes one a core. The output is the same.", minimum=0
    )
    shard_size_mb: float = options.flag(
        4.0,
        "The corpus is cut at document borders into parts of about this many MB, each shuffled by "
        "itself; bounds the memory.",
        minimum=0.001,
    )
    log_examples: int = options.flag(20, "Number of examples to print in full.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.mask_token_share + self.keep_token_share + self.random_token_share
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise errors.FlagError(
                f"--mask_token_share={self.mask_token_share} "
                f"--keep_token_share={self.keep_token_share} "
                f"--random_token_share={self.random_token_share}: the sum is {total:g}, not 1"
            )
        for name in ("whole_word_from_spaces", "whole_word_one_decision"):
            if getattr(self, name) and not self.do_whole_word_mask:
                raise errors.FlagError(
                    f"--{name} does nothing without --do_whole_word_mask; add it"
                )

    @property
    def keep_share_of_others(self) -> float:
        """Share of the chosen tokens not shown as [MASK] that are shown unchanged."""
        others = self.keep_token_share + self.random_token_share
        return self.keep_token_share / others if others else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(_ExampleSizes):
    """Pre-training"""

    input_file: str = options.flag(
        "",
        "TFRecord files of create_pretraining_data, comma separated, or patterns.",
        required=True,
    )
    objective: str = options.flag(
        "mlm_nsp",
        "mlm_nsp: masked words and next sentence (BERT); mlm: masked words only (No NSP); ltr: the "
        "next token, with attention to the left only (LTR & No NSP).",
        choices=("mlm_nsp", "mlm", "ltr"),
    )
    do_train: bool = options.flag(False, "Train.")
    do_eval: bool = options.flag(False, "Evaluate the newest checkpoint on --eval_file.")
    eval_file: str = options.flag(
        "",
        "Held-out TFRecord files for evaluation. Unset: --input_file, as in the original release.",
    )
    train_batch_size: int = options.flag(32, "Examples in a step, over all devices.", minimum=1)
    eval_batch_size: int = options.flag(8, "Examples in an evaluation batch.", minimum=1)
    num_train_steps: int = options.flag(
        100000, "Step at which training ends, counted from 0.", minimum=1
    )
    num_warmup_steps: int = options.flag(
        10000, "Steps over which the learning rate rises.", minimum=0
    )
    max_eval_steps: int = options.flag(100, "Most evaluation batches.", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.do_train and not self.do_eval:
            raise errors.FlagError("nothing to do: give --do_train, --do_eval or both")


class PretrainingFlags(NamedTuple):
    """The flag groups of run_pretraining.py."""

    data: PretrainingOptions
    model: options.ModelOptions
    optimizer: options.OptimizerOptions
    run: options.RunOptions
    device: options.DeviceOptions


def check_pretraining_flags(*groups: Any) -> None:
    """Finds contradictions between the flags of run_pretraining.py that need no data to see.

    Args:
      *groups: the fields of ``PretrainingFlags``.

    Raises:
      errors.FlagError: flags that do nothing together, or an --output_dir that cannot be one.
    """
    flags = PretrainingFlags(*groups)
    data, run = flags.data, flags.run
    if run.eval_checkpoint and not data.do_eval:
        raise errors.FlagError("--eval_checkpoint does nothing without --do_eval; add it")
    if run.eval_steps and not data.do_train:
        raise errors.FlagError("--eval_steps does nothing without --do_train; add it")
    outputs.check_directory("output_dir", run.output_dir)
