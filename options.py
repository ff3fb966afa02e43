"""Every flag of every script, defined once, in groups that become frozen dataclasses.

A script names the groups it uses and gets an instance of each from ``command_line.run``. No other
module reads flags.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Sequence

import errors


def _flag(
    default: typing.Any,
    help_text: str,
    *,
    required: bool = False,
    choices: Sequence[str] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> typing.Any:
    """A dataclass field that is a flag; bounds are inclusive."""
    metadata = {
        "help": help_text,
        "required": required,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
    }
    return dataclasses.field(default=default, metadata=metadata)


# --------------------------------------------------------------------------------------------------
# Groups
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TextRules:
    """What makes of a text the words that pieces are looked up for"""

    do_lower_case: bool = _flag(
        True,
        "Lower-case the text and strip accents: true for uncased models, false for cased ones.",
    )
    strip_accents: bool | None = _flag(
        None, "Strip accents whether or not the text is lower-cased. Unset: follow --do_lower_case."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExampleSizes:
    """Sizes on which the maker and the reader of pre-training records must agree"""

    max_seq_length: int = _flag(128, "Tokens an example has, special tokens included.", minimum=5)
    max_predictions_per_seq: int = _flag(20, "Most masked tokens an example has.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerOptions(_TextRules):
    """Vocabulary and text rules"""

    vocab_file: str = _flag(
        "", "WordPiece vocabulary, one token a line, id = line number from 0.", required=True
    )
    protected_tokens: str = _flag(
        "",
        "Comma separated tokens, such as [MASK], taken whole where they stand in the text. "
        "Unset: text never becomes a control token.",
    )
    space_symbols: bool = _flag(
        False,
        "Put spaces around symbols such as emoji (Unicode category So). The released models saw "
        "them glued to the word, which makes the whole word [UNK].",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabOptions(_TextRules):
    """Vocabulary to learn"""

    input_file: str = _flag(
        "", "Text files, comma separated; each item may be a pattern; .gz is read.", required=True
    )
    output_file: str = _flag("", "The vocab.txt to write.", required=True)
    vocab_size: int = _flag(30522, "Number of entries, special tokens included.", minimum=10)
    min_count: int = _flag(
        2, "A word must occur this often in the corpus to shape the vocabulary.", minimum=1
    )
    unused_tokens: int = _flag(
        0, "Number of [unusedN] entries kept free for words that are added later.", minimum=0
    )

    def __post_init__(self) -> None:
        if self.unused_tokens + 5 >= self.vocab_size:
            raise errors.FlagError(
                f"--vocab_size={self.vocab_size} leaves no room beside 5 special tokens and "
                f"--unused_tokens={self.unused_tokens}; expected more than {self.unused_tokens + 5}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataOptions(_ExampleSizes):
    """Examples to make"""

    input_file: str = _flag(
        "",
        "Raw text, one sentence a line, an empty line between documents. Comma separated; each "
        "item may be a pattern; .gz is read.",
        required=True,
    )
    output_file: str = _flag(
        "", "TFRecord files to write, comma separated; examples go round robin.", required=True
    )
    do_whole_word_mask: bool = _flag(False, "Mask all pieces of a word together.")
    whole_word_from_spaces: bool = _flag(
        False,
        "With --do_whole_word_mask: a word is what stands between spaces in the input, not what ## "
        "joins. For Chinese text that was segmented beforehand.",
    )
    whole_word_one_decision: bool = _flag(
        False,
        "With --do_whole_word_mask: all pieces of a word become [MASK], stay, or are replaced "
        "alike. Unset: each piece decides for itself, as released.",
    )
    random_seed: int = _flag(12345, "Seed of everything drawn.")
    dupe_factor: int = _flag(10, "Times the corpus is gone through, masked anew.", minimum=1)
    masked_lm_prob: float = _flag(
        0.15, "Share of the tokens chosen for prediction.", minimum=0.0, maximum=1.0
    )
    mask_token_share: float = _flag(
        0.8, "Share of the chosen tokens shown as [MASK].", minimum=0.0, maximum=1.0
    )
    keep_token_share: float = _flag(
        0.1, "Share of the chosen tokens shown unchanged.", minimum=0.0, maximum=1.0
    )
    random_token_share: float = _flag(
        0.1, "Share of the chosen tokens shown as a random token.", minimum=0.0, maximum=1.0
    )
    short_seq_prob: float = _flag(
        0.1, "Share of the examples made shorter on purpose.", minimum=0.0, maximum=1.0
    )
    no_nsp: bool = _flag(
        False, "Examples of a single segment, without next-sentence pairs ([CLS] text [SEP])."
    )
    num_workers: int = _flag(0, "Processes; 0 takes one a core. The output is the same.", minimum=0)
    shard_size_mb: float = _flag(
        4.0,
        "The corpus is cut at document borders into parts of about this many MB, each shuffled by "
        "itself; bounds the memory.",
        minimum=0.001,
    )
    log_examples: int = _flag(20, "Number of examples to print in full.", minimum=0)

    def __post_init__(self) -> None:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Model"""

    bert_config_file: str = _flag("", "JSON file with the sizes of the model.", required=True)
    init_checkpoint: str = _flag(
        "",
        "Weights to start from: a checkpoint prefix, one of its files, a directory, or a Hugging "
        "Face model.safetensors. Has no effect when --output_dir already holds a checkpoint.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(_ExampleSizes):
    """Pre-training"""

    input_file: str = _flag(
        "",
        "TFRecord files of create_pretraining_data, comma separated, or patterns.",
        required=True,
    )
    objective: str = _flag(
        "mlm_nsp",
        "mlm_nsp: masked words and next sentence (BERT); mlm: masked words only (No NSP); ltr: the "
        "next token, with attention to the left only (LTR & No NSP).",
        choices=("mlm_nsp", "mlm", "ltr"),
    )
    do_train: bool = _flag(False, "Train.")
    do_eval: bool = _flag(False, "Evaluate the newest checkpoint on --eval_file.")
    eval_file: str = _flag(
        "",
        "Held-out TFRecord files for evaluation. Unset: --input_file, as in the original release.",
    )
    train_batch_size: int = _flag(32, "Examples in a step, over all devices.", minimum=1)
    eval_batch_size: int = _flag(8, "Examples in an evaluation batch.", minimum=1)
    num_train_steps: int = _flag(100000, "Step at which training ends, counted from 0.", minimum=1)
    num_warmup_steps: int = _flag(10000, "Steps over which the learning rate rises.", minimum=0)
    max_eval_steps: int = _flag(100, "Most evaluation batches.", minimum=1)

    def __post_init__(self) -> None:
        if not self.do_train and not self.do_eval:
            raise errors.FlagError("nothing to do: give --do_train, --do_eval or both")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Task and data"""

    task_name: str = _flag(
        "",
        "cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-mm, qnli, rte, wnli, ax, xnli, snli, or custom "
        "for a table of your own.",
        required=True,
    )
    data_dir: str = _flag("", "Folder of the task's files; not needed for custom.")
    max_seq_length: int = _flag(
        128, "Most tokens of an example, special tokens included; longer ones are cut.", minimum=3
    )
    do_eval: bool = _flag(False, "Evaluate on the dev set.")
    do_predict: bool = _flag(False, "Predict the test set; writes test_results.tsv.")
    log_examples: int = _flag(5, "Examples of each set to log in full.", minimum=0)
    do_export: bool = _flag(False, "Write a SavedModel to <output_dir>/export.")
    eval_batch_size: int = _flag(8, "Examples in an evaluation batch.", minimum=1)
    predict_batch_size: int = _flag(8, "Examples in a prediction batch.", minimum=1)
    also_tasks: str = _flag(
        "",
        "Tasks with the same labels whose dev and test sets to evaluate and predict too, comma "
        "separated, such as mnli-mm,ax; they get files such as test_results-ax.tsv.",
    )
    xnli_language: str = _flag("zh", "Language of xnli, as --task_name or in --also_tasks.")
    train_file: str = _flag("", "custom: training rows, a TSV, CSV or JSON lines file.")
    dev_file: str = _flag("", "custom: rows to evaluate.")
    test_file: str = _flag(
        "",
        "custom: rows to predict. Of several files, comma separated, each gets its own results: "
        "those of v1.tsv go to test_results-v1.tsv.",
    )
    text_a_column: str = _flag("", "custom: column of the text, by name or by number from 0.")
    text_b_column: str = _flag("", "custom: column of the second text of a pair; unset: none.")
    label_column: str = _flag("", "custom: column of the label.")
    labels: str = _flag(
        "",
        "custom: the labels in order, comma separated, or a file with one a line. Unset: those of "
        "the training rows, sorted.",
    )
    has_header: bool | None = _flag(
        None, "custom: whether line 1 names the columns. Unset: it does when columns are named."
    )
    regression: bool = _flag(False, "custom: the label is a number to predict.")
    multi_label: bool = _flag(
        False, "custom: a row has any number of labels, comma separated or as a JSON list."
    )
    skip_bad_rows: bool = _flag(
        False, "Leave out training rows with too few columns, with a count, instead of stopping."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions:
    """Questions and answers"""

    train_file: str = _flag("", "Questions to train on, a JSON file in the layout of SQuAD.")
    predict_file: str = _flag("", "Questions to predict and, with --do_eval, to score.")
    dev_file: str = _flag(
        "",
        "Questions for --eval_steps (unset: --predict_file) and for "
        "--null_score_diff_threshold=auto.",
    )
    max_seq_length: int = _flag(
        384, "Most tokens of a window: question, a part of the context, special tokens.", minimum=4
    )
    doc_stride: int = _flag(
        128, "Pieces from the start of a window of a long context to the next one's.", minimum=1
    )
    max_query_length: int = _flag(64, "Most pieces of a question; the rest is cut off.", minimum=0)
    do_predict: bool = _flag(
        False,
        "Answer the questions of --predict_file; writes predictions.json. Several models, comma "
        "separated in --init_checkpoint, answer together: their logits are averaged.",
    )
    do_eval: bool = _flag(
        False,
        "Score the answers to --predict_file by the official rules; writes eval_results.txt and "
        "eval_results.json.",
    )
    do_export: bool = _flag(False, "Write a SavedModel to <output_dir>/export.")
    predict_batch_size: int = _flag(8, "Windows in a prediction batch.", minimum=1)
    n_best_size: int = _flag(20, "Candidates in nbest_predictions.json.", minimum=1)
    max_answer_length: int = _flag(30, "Most pieces of an answer.", minimum=1)
    version_2_with_negative: bool = _flag(
        False, "Questions may have no answer, as in SQuAD 2.0; the answer is then empty."
    )
    null_score_diff_threshold: str = _flag(
        "0.0",
        "Version 2: there is no answer where its score exceeds that of the best one by more than "
        "this. 'auto' finds the threshold with the best F1 on --dev_file and keeps it in "
        "<output_dir>/null_threshold.json; without --dev_file it takes that of the file.",
    )
    answer_policy: str = _flag(
        "error",
        "Training takes one answer a question. Where there are more: stop; take the first or the "
        "shortest; or make all distinct ones examples.",
        choices=("error", "first", "shortest", "all"),
    )
    whole_answer_windows_only: bool = _flag(
        False,
        "Leave out training windows that have not all of their answer. Unset: they are trained to "
        "[CLS], as released.",
    )
    nbest_offsets: bool = _flag(
        False, "Add start and end, characters of the context, to nbest_predictions.json."
    )
    exact_answer_texts: bool = _flag(
        False,
        "Cut answers out of the context just where their pieces stand. Unset: as released, which "
        "takes whole words where pieces are not found, such as words with [UNK].",
    )
    ensure_ascii: bool = _flag(
        True, "Write other characters as \\uXXXX to the JSON files; false: as they are, in UTF-8."
    )
    verbose_logging: bool = _flag(False, "Log answers that stand for whole words.")
    log_examples: int = _flag(20, "Questions of each set to log in full.", minimum=0)
    num_workers: int = _flag(
        0, "Processes that make windows; 0 takes one a core for long texts.", minimum=0
    )

    def __post_init__(self) -> None:
        threshold = self.null_score_diff_threshold
        try:
            is_number = math.isfinite(float(threshold))
        except ValueError:
            is_number = False
        if not is_number and threshold != "auto":
            raise errors.FlagError(
                f"--null_score_diff_threshold={threshold}: expected a finite number or auto"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """Questions to convert"""

    input_format: str = _flag(
        "",
        "triviaqa: a question file of TriviaQA's Wikipedia part; mrqa: JSON lines of MRQA 2019.",
        required=True,
        choices=("triviaqa", "mrqa"),
    )
    input_file: str = _flag("", "The file to convert; .gz is read.", required=True)
    output_file: str = _flag("", "The JSON file to write.", required=True)
    evidence_dir: str = _flag("", "triviaqa: folder of the documents, such as evidence/wikipedia.")
    max_tokens: int = _flag(
        400, "triviaqa: tokens that are taken of a document, from its beginning.", minimum=1
    )

    def __post_init__(self) -> None:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions:
    """Fine-tuning"""

    do_train: bool = _flag(False, "Train.")
    train_batch_size: int = _flag(32, "Examples in a step, over all devices.", minimum=1)
    num_train_epochs: float = _flag(3.0, "Times to go through the training set.", minimum=0.0)
    warmup_proportion: float = _flag(
        0.1, "Share of the steps over which the learning rate rises.", minimum=0.0, maximum=1.0
    )
    freeze_layers: int = _flag(
        0, "Keep the embeddings and this many first layers as they are; 0 trains all.", minimum=0
    )
    head: str = _flag(
        "linear",
        "What stands on the encoder: linear (BERT), or bilstm, a BiLSTM below the linear output.",
        choices=("linear", "bilstm"),
    )
    new_head: bool = _flag(
        False,
        "Start with random output weights even where --init_checkpoint has some: to go on from a "
        "model that was fine-tuned on another task.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """Optimizer"""

    learning_rate: float = _flag(
        5e-5, "Peak learning rate of AdamWeightDecay.", minimum=0.0, maximum=1e6
    )
    gradient_accumulation_steps: int = _flag(
        1,
        "Cut each batch into this many parts that are computed one after the other: the same step "
        "with less memory. --train_batch_size stays the whole batch.",
        minimum=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Run"""

    output_dir: str = _flag(
        "", "Directory of checkpoints and results; training resumes from it.", required=True
    )
    save_checkpoints_steps: int = _flag(1000, "Steps from checkpoint to checkpoint.", minimum=1)
    keep_checkpoint_max: int = _flag(5, "Newest checkpoints to keep; 0 keeps all.", minimum=0)
    eval_steps: int = _flag(
        0, "Evaluate every so many steps while training and keep the best; 0 never.", minimum=0
    )
    log_steps: int = _flag(100, "Steps from progress line to progress line.", minimum=1)
    iterations_per_loop: int = _flag(1000, "Steps a TPU runs without the host.", minimum=1)
    random_seed: int = _flag(12345, "Seed of initial weights, data order and dropout.")
    eval_checkpoint: str = _flag(
        "",
        "Checkpoint to evaluate or predict with instead of the newest in --output_dir; 'best' is "
        "the one that --eval_steps kept; 'all' evaluates every one there. The results go to "
        "eval_results-<step>.txt.",
    )
    save_weights_only: bool = _flag(
        False, "Also write the final weights without optimizer state to <output_dir>/weights/."
    )

    @property
    def named_checkpoint(self) -> str:
        """--eval_checkpoint where it is a path; empty where it means what the run itself makes."""
        return "" if self.eval_checkpoint in ("best", "all") else self.eval_checkpoint


def _same(group: type, name: str) -> typing.Any:
    """The flag of another group, for a script that takes only some of its flags."""
    field = group.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return dataclasses.field(default=field.default, metadata=field.metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueOptions:
    """Tasks and runs"""

    data_dir: str = _flag(
        "", "Folder of a GLUE download, with MRPC, CoLA and so on below it.", required=True
    )
    output_dir: str = _flag(
        "",
        "Directory of all runs, <task>/lr<rate>-seed<seed>/ each, and of the summary. The same "
        "command goes on where it stopped.",
        required=True,
    )
    tasks: str = _flag(
        "cola,sst-2,mrpc,sts-b,qqp,mnli,qnli,rte",
        "Tasks, comma separated. The default is those of the paper: all but wnli, which gets its "
        "majority class in a submission unless it is named here.",
    )
    learning_rates: str = _flag(
        "5e-5,4e-5,3e-5,2e-5", "Learning rates to try, comma separated (paper, section 4.1)."
    )
    seeds: str = _flag(
        "1", "Seeds of the runs with each learning rate, comma separated whole numbers."
    )
    jobs: int = _flag(1, "Runs at a time; they share the processor cores.", minimum=1)
    keep_all_runs: bool = _flag(
        False, "Keep the checkpoints of all runs of a task, not those of its best run alone."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueRunOptions:
    """Each run"""

    max_seq_length: int = _same(ClassifierOptions, "max_seq_length")
    train_batch_size: int = _same(FineTuningOptions, "train_batch_size")
    eval_batch_size: int = _same(ClassifierOptions, "eval_batch_size")
    predict_batch_size: int = _same(ClassifierOptions, "predict_batch_size")
    num_train_epochs: float = _same(FineTuningOptions, "num_train_epochs")
    warmup_proportion: float = _same(FineTuningOptions, "warmup_proportion")
    freeze_layers: int = _same(FineTuningOptions, "freeze_layers")
    head: str = _same(FineTuningOptions, "head")
    new_head: bool = _same(FineTuningOptions, "new_head")
    gradient_accumulation_steps: int = _same(OptimizerOptions, "gradient_accumulation_steps")
    skip_bad_rows: bool = _same(ClassifierOptions, "skip_bad_rows")
    save_checkpoints_steps: int = _same(RunOptions, "save_checkpoints_steps")
    log_steps: int = _same(RunOptions, "log_steps")
    iterations_per_loop: int = _same(RunOptions, "iterations_per_loop")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Devices and precision"""

    precision: str = _flag(
        "float32",
        "Number format of the matrix products; weights, norms, softmax and loss stay float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    static_shapes: bool = _flag(
        False, "Compute padding too, so that all shapes are fixed. Implied by --xla and --use_tpu."
    )
    xla: bool = _flag(False, "Compile forward and backward pass with XLA.")
    num_gpus: int = _flag(-1, "GPUs to use; -1 takes all there are.", minimum=-1)
    num_cpu_devices: int = _flag(
        1, "Split the CPU into this many devices, to rehearse a multi-device run.", minimum=1
    )
    use_tpu: bool = _flag(False, "Run on a Cloud TPU.")
    tpu_name: str = _flag("", "'local', the TPU of this machine; others are not supported.")
    tpu_zone: str = _flag("", "Accepted for old command lines; not used.")
    gcp_project: str = _flag("", "Accepted for old command lines; not used.")
    master: str = _flag("", "TensorFlow master; used as --tpu_name when that is not given.")
    num_tpu_cores: int = _flag(8, "Accepted for old command lines; the cores found are used.")


def resolve_device(device: DeviceOptions) -> DeviceOptions:
    """--xla and --use_tpu imply --static_shapes."""
    return dataclasses.replace(
        device, static_shapes=device.static_shapes or device.xla or device.use_tpu
    )
