"""The flags that several commands share, in groups that are frozen dataclasses.

The flags of one task alone are in its own ``options``. A command names the groups it takes and gets
an instance of each from ``app.run``; nothing else reads the command line.
"""

import dataclasses
import math
import typing
from collections.abc import Sequence

from command_line import errors


def flag(
    default: typing.Any,
    help_text: str,
    *,
    required: bool = False,
    choices: Sequence[str] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> typing.Any:
    """A dataclass field that is a flag.

    Args:
      default: value of a flag that is not given.
      help_text: for ``--help``; a sentence.
      required: an empty value is an error.
      choices: the allowed values; None: any.
      minimum, maximum: bounds of a number, inclusive; None: no limit.
    """
    limits = {"choices": choices, "minimum": minimum, "maximum": maximum}
    metadata = {"help": help_text, "required": required, **limits}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Flags that belong together; every instance keeps the limits that its fields declare.

    Raises:
      errors.FlagError: naming the flag, its value and what was expected.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_value(field, getattr(self, field.name))


def _check_value(field: dataclasses.Field, value: typing.Any) -> None:
    choices, minimum, maximum = (field.metadata[key] for key in ("choices", "minimum", "maximum"))
    if isinstance(value, str) and not _is_utf8(value):
        raise errors.FlagError(f"--{field.name}={value!a}: the value is not UTF-8 text")
    if choices and value not in choices:
        expected = f"one of {', '.join(choices)}"
    elif isinstance(value, int) and abs(value) > 2**31 - 1:
        expected = f"between {1 - 2**31} and {2**31 - 1}"
    elif isinstance(value, float) and not math.isfinite(value):
        expected = "a finite number"
    elif minimum is not None and value < minimum:
        expected = f"at least {minimum}"
    elif maximum is not None and value > maximum:
        expected = f"at most {maximum}"
    else:
        return
    raise errors.FlagError(f"--{field.name}={value}: expected {expected}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8 become surrogates
        return False
    return "\0" not in text


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRules(Group):
    """How a text is normalized before it is split into word pieces"""

    do_lower_case: bool = flag(
        True,
        "Lower-case the text and strip accents: true for uncased models, false for cased ones.",
    )
    strip_accents: bool | None = flag(
        None, "Strip accents whether or not the text is lower-cased. Unset: follow --do_lower_case."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerOptions(TextRules):
    """Vocabulary and text rules"""

    vocab_file: str = flag(
        "", "WordPiece vocabulary, one token a line, id = line number from 0.", required=True
    )
    protected_tokens: str = flag(
        "",
        "Comma separated tokens, such as [MASK], kept whole where the text contains them. "
        "Unset: text never becomes a control token.",
    )
    space_symbols: bool = flag(
        False,
        "Put spaces around symbols such as emoji (Unicode category So). The released models saw "
        "them glued to the word, which makes the whole word [UNK].",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(Group):
    """Model"""

    bert_config_file: str = flag("", "JSON file with the sizes of the model.", required=True)
    init_checkpoint: str = flag(
        "",
        "Weights to start from: a checkpoint prefix, one of its files, a directory, or a Hugging "
        "Face model.safetensors. Has no effect when --output_dir already holds a checkpoint.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(Group):
    """Fine-tuning"""

    do_train: bool = flag(False, "Train.")
    train_batch_size: int = flag(32, "Examples in a step, over all devices.", minimum=1)
    num_train_epochs: float = flag(3.0, "Passes over the training set.", minimum=0.0)
    warmup_proportion: float = flag(
        0.1, "Fraction of the steps over which the learning rate rises.", minimum=0.0, maximum=1.0
    )
    freeze_layers: int = flag(
        0, "Keep the embeddings and this many first layers as they are; 0 trains all.", minimum=0
    )
    head: str = flag(
        "linear",
        "Task head on top of the encoder: linear (BERT), or bilstm, a BiLSTM and then linear.",
        choices=("linear", "bilstm"),
    )
    new_head: bool = flag(
        False,
        "Start with random output weights even where --init_checkpoint has some, such as those of "
        "another task.",
    )
    export_version: int = flag(
        0,
        "With --do_export: write to export/<version>/, where TensorFlow Serving looks for the "
        "versions of a model; 0: to export/.",
        minimum=0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Group):
    """Optimizer"""

    learning_rate: float = flag(
        5e-5, "Peak learning rate of AdamWeightDecay.", minimum=0.0, maximum=1e6
    )
    gradient_accumulation_steps: int = flag(
        1,
        "Cut each batch into this many parts that are computed one after the other: the same step "
        "with less memory. --train_batch_size stays the whole batch.",
        minimum=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Group):
    """Run"""

    output_dir: str = flag(
        "", "Directory of checkpoints and results; training resumes from it.", required=True
    )
    save_checkpoints_steps: int = flag(1000, "Steps between two checkpoints.", minimum=1)
    keep_checkpoint_max: int = flag(5, "Newest checkpoints to keep; 0 keeps all.", minimum=0)
    eval_steps: int = flag(
        0,
        "Evaluate every so many training steps and keep the best checkpoint; 0: never.",
        minimum=0,
    )
    log_steps: int = flag(
        100, "Steps between two progress lines; at most a twentieth of the run.", minimum=1
    )
    iterations_per_loop: int = flag(1000, "Steps a TPU runs without the host.", minimum=1)
    random_seed: int = flag(12345, "Seed of initial weights, data order and dropout.")
    eval_checkpoint: str = flag(
        "",
        "Checkpoint to evaluate or predict with instead of the newest in --output_dir; 'best' is "
        "the one that --eval_steps kept; 'all' evaluates every one there. The results go to "
        "eval_results-<step>.txt.",
    )
    save_weights_only: bool = flag(
        False, "Also write the final weights without optimizer state to <output_dir>/weights/."
    )

    @property
    def named_checkpoint(self) -> str:
        """--eval_checkpoint where it is a path; empty where it means what the run itself makes."""
        return "" if self.eval_checkpoint in ("best", "all") else self.eval_checkpoint


def same_flag(group: type, name: str) -> typing.Any:
    """A field with the flag of another group, for a command that takes only some of its flags."""
    field = group.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return dataclasses.field(default=field.default, metadata=field.metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions(Group):
    """Devices and precision"""

    precision: str = flag(
        "float32",
        "Number format of the matrix products; weights, norms, softmax and loss stay float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    static_shapes: bool = flag(
        False, "Compute padding too, so that all shapes are static. Implied by --xla and --use_tpu."
    )
    xla: bool = flag(False, "Compile forward and backward pass with XLA.")
    num_gpus: int = flag(-1, "GPUs to use; -1: all.", minimum=-1)
    num_cpu_devices: int = flag(
        1, "Split the CPU into this many devices, to try out a run on several devices.", minimum=1
    )
    use_tpu: bool = flag(False, "Run on a Cloud TPU.")
    tpu_name: str = flag("", "'local', the TPU of this machine; others are not supported.")
    tpu_zone: str = flag("", "Accepted for old command lines; not used.")
    gcp_project: str = flag("", "Accepted for old command lines; not used.")
    master: str = flag("", "TensorFlow master; used as --tpu_name when that is not given.")
    num_tpu_cores: int = flag(8, "Accepted for old command lines; the cores found are used.")


def resolve_device(device: DeviceOptions) -> DeviceOptions:
    """--xla and --use_tpu imply --static_shapes."""
    return dataclasses.replace(
        device, static_shapes=device.static_shapes or device.xla or device.use_tpu
    )
