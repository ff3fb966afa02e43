"""The flags that only run_glue.py has."""

import dataclasses

from command_line import options
from tasks.classifier import options as classifier_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueOptions(options.Group):
    """Tasks and runs"""

    data_dir: str = options.flag(
        "", "Folder of a GLUE download, with MRPC, CoLA and so on below it.", required=True
    )
    output_dir: str = options.flag(
        "",
        "Directory of all runs, <task>/lr<rate>-seed<seed>/ each, and of the summary. The same "
        "command goes on where it stopped.",
        required=True,
    )
    tasks: str = options.flag(
        "cola,sst-2,mrpc,sts-b,qqp,mnli,qnli,rte",
        "Tasks, comma separated. The default is those of the paper: all but wnli, which gets its "
        "majority class in a submission unless it is named here.",
    )
    learning_rates: str = options.flag(
        "5e-5,4e-5,3e-5,2e-5", "Learning rates to try, comma separated (paper, section 4.1)."
    )
    seeds: str = options.flag(
        "1", "Seeds of the runs with each learning rate, comma separated whole numbers."
    )
    jobs: int = options.flag(1, "Runs at a time; they share the processor cores.", minimum=1)
    keep_all_runs: bool = options.flag(
        False, "Keep the checkpoints of all runs of a task, not those of its best run alone."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueRunOptions(options.Group):
    """Each run"""

    max_seq_length: int = options.same_flag(classifier_options.ClassifierOptions, "max_seq_length")
    train_batch_size: int = options.same_flag(options.FineTuningOptions, "train_batch_size")
    eval_batch_size: int = options.same_flag(
        classifier_options.ClassifierOptions, "eval_batch_size"
    )
    predict_batch_size: int = options.same_flag(
        classifier_options.ClassifierOptions, "predict_batch_size"
    )
    num_train_epochs: float = options.same_flag(options.FineTuningOptions, "num_train_epochs")
    warmup_proportion: float = options.same_flag(options.FineTuningOptions, "warmup_proportion")
    freeze_layers: int = options.same_flag(options.FineTuningOptions, "freeze_layers")
    head: str = options.same_flag(options.FineTuningOptions, "head")
    new_head: bool = options.same_flag(options.FineTuningOptions, "new_head")
    gradient_accumulation_steps: int = options.same_flag(
        options.OptimizerOptions, "gradient_accumulation_steps"
    )
    skip_bad_rows: bool = options.same_flag(classifier_options.ClassifierOptions, "skip_bad_rows")
    save_checkpoints_steps: int = options.same_flag(options.RunOptions, "save_checkpoints_steps")
    log_steps: int = options.same_flag(options.RunOptions, "log_steps")
    iterations_per_loop: int = options.same_flag(options.RunOptions, "iterations_per_loop")


GROUPS = (
    GlueOptions,
    GlueRunOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.DeviceOptions,
)
