"""The flags that only run_classifier.py has."""

import dataclasses

from command_line import options
from training import fine_tuning_flags

# What the task writes into --output_dir; see outputs.check_data.
OUTPUT_FILES = ("labels.txt", "test_results*")

# The flags that only the task "custom" takes.
CUSTOM_FLAGS = (
    "has_header", "label_column", "labels", "multi_label", "regression",
    "text_a_column", "text_b_column", "train_file", "dev_file", "test_file",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions(options.Group):
    """Task and data"""

    task_name: str = options.flag(
        "",
        "cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-mm, qnli, rte, wnli, ax, xnli, snli, or custom "
        "for a table of your own.",
        required=True,
    )
    data_dir: str = options.flag("", "Folder of the task's files; not needed for custom.")
    max_seq_length: int = options.flag(
        128, "Most tokens of an example, special tokens included; longer ones are cut.", minimum=3
    )
    do_eval: bool = options.flag(False, "Evaluate on the dev set.")
    do_predict: bool = options.flag(False, "Predict the test set; writes test_results.tsv.")
    log_examples: int = options.flag(5, "Examples of each set to log in full.", minimum=0)
    do_export: bool = options.flag(False, "Write a SavedModel to <output_dir>/export.")
    eval_batch_size: int = options.flag(8, "Examples in an evaluation batch.", minimum=1)
    predict_batch_size: int = options.flag(8, "Examples in a prediction batch.", minimum=1)
    also_tasks: str = options.flag(
        "",
        "Tasks with the same labels whose dev and test sets to evaluate and predict too, comma "
        "separated, such as mnli-mm,ax; they get files such as test_results-ax.tsv.",
    )
    xnli_language: str = options.flag("zh", "Language of xnli, as --task_name or in --also_tasks.")
    train_file: str = options.flag("", "custom: training rows, a TSV, CSV, JSON or Parquet file.")
    dev_file: str = options.flag("", "custom: rows to evaluate.")
    test_file: str = options.flag(
        "",
        "custom: rows to predict. Of several files, comma separated, each gets its own results: "
        "those of v1.tsv go to test_results-v1.tsv.",
    )
    text_a_column: str = options.flag(
        "", "custom: column of the text, by name or by number from 0."
    )
    text_b_column: str = options.flag(
        "", "custom: column of the second text of a pair; unset: none."
    )
    label_column: str = options.flag(
        "",
        "custom: column of the label. With --multi_label also several, comma separated: their "
        "names are the labels, and a row has those with a 1.",
    )
    labels: str = options.flag(
        "",
        "custom: the labels in order, comma separated, or a file with one a line. Unset: those of "
        "the training rows, sorted.",
    )
    positive_label: str = options.flag(
        "",
        "The label that eval_f1 is about, of a table or processor of your own; unset: the second "
        "one.",
    )
    has_header: bool | None = options.flag(
        None, "custom: whether line 1 names the columns. Unset: it does when columns are named."
    )
    regression: bool = options.flag(False, "custom: the label is a number to predict.")
    multi_label: bool = options.flag(
        False, "custom: a row has any number of labels, comma separated or as a JSON list."
    )
    skip_bad_rows: bool = options.flag(
        False, "Leave out training rows with too few columns, with a count, instead of stopping."
    )


GROUPS = (ClassifierOptions, *fine_tuning_flags.SHARED_GROUPS)
