"""The work of run_glue: check the flags, make the missing runs, write summary and submission."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

import tokenization
from checkpoints import config_files
from command_line import errors, options
from system import locks, outputs, signals
from tasks.glue import data_sets, jobs, predictions, search, submission
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs
from training import fine_tuning_flags

_log = logging.getLogger(__name__)

_LOCK_TIMEOUT = 60.0  # seconds that the runs of a killed run_glue are given to save


def run_search(
    flags: glue_options.GlueOptions,
    run_options: glue_options.GlueRunOptions,
    text: options.TokenizerOptions,
    model: options.ModelOptions,
    device: options.DeviceOptions,
) -> None:
    """Makes the runs and predictions that are missing, then the summary and the submission.

    Raises:
      errors.FlagError: invalid flags, or flags that differ from those of existing runs.
      errors.UserError: missing or invalid data or model files; failed runs.
    """
    _check_directories(flags)
    plan = glue_runs.plan(flags)
    _check_flags(run_options, model, device)
    _check_model(run_options, text, model)
    data = {
        task: data_sets.read(task, flags.data_dir, skip_bad_rows=run_options.skip_bad_rows)
        for task in dict.fromkeys(run.task for run in plan)
    }
    os.makedirs(flags.output_dir, exist_ok=True)
    with jobs.stop_requests() as stop, _exclusive_lock(flags.output_dir, stop) as lock:
        run_groups = (run_options, text, model, device)
        glue_search = search.Search(flags, plan, data, run_groups, stop)
        glue_search.check_flags()
        glue_search.begin()
        jobs.run_all(
            glue_search.queue,
            flags.jobs,
            environment=jobs.thread_limits(flags.jobs),
            inherited_files=lock,
            stop=stop,
        )
        if glue_search.refusal:
            raise errors.FlagError(glue_search.refusal)
        print(glue_search.write_summary())
        if stop.count:
            _log.info("stopped; the same command goes on")
            raise errors.Stopped(stop.first_signal)
        _write_submission(glue_search, flags)
    glue_search.report_failures()


def _check_directories(flags: glue_options.GlueOptions) -> None:
    """Requires directories where they are needed."""
    if "://" in flags.output_dir:
        raise errors.FlagError(f"--output_dir={flags.output_dir}: expected a local directory")
    outputs.check_directory("output_dir", flags.output_dir)
    if not os.path.isdir(flags.data_dir):
        raise errors.UserError(f"--data_dir={flags.data_dir}: not a directory")


def _check_flags(
    run_options: glue_options.GlueRunOptions,
    model: options.ModelOptions,
    device: options.DeviceOptions,
) -> None:
    """Refuses flags that would have no effect beside the others."""
    if run_options.new_head and not model.init_checkpoint:
        raise errors.FlagError("--new_head does nothing without --init_checkpoint; add it")
    unused = ["tpu_name", "master", "iterations_per_loop"]
    if device.use_tpu:
        unused = ["num_gpus", "num_cpu_devices"]
    reason = f"does nothing {'with' if device.use_tpu else 'without'} --use_tpu; leave it out"
    for group in (run_options, device):
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if field.name in unused and value != field.default:
                raise errors.FlagError(f"--{field.name}={value} {reason}")


def _check_model(
    run_options: glue_options.GlueRunOptions,
    text: options.TokenizerOptions,
    model: options.ModelOptions,
) -> None:
    """Checks the files of the model as far as that is possible without TensorFlow."""
    config = _read_config(model.bert_config_file)
    fine_tuning_flags.check_length_early(run_options.max_seq_length, model.bert_config_file)
    checkpoint = model.init_checkpoint
    tokenization.validate_case_matches_checkpoint(text.do_lower_case, checkpoint)
    tokenizer = tokenization.create_tokenizer(text)
    size = config.get("vocab_size")
    tokenization.check_vocab(
        tokenizer, text.vocab_file, vocab_size=size if isinstance(size, int) else None
    )
    paths = (checkpoint, f"{checkpoint}.index")
    if checkpoint and "://" not in checkpoint and not any(map(os.path.exists, paths)):
        raise errors.UserError(
            f"--init_checkpoint={checkpoint}: not found; expected a checkpoint prefix, a directory "
            "or a .safetensors file"
        )


def _read_config(path: str) -> Mapping[str, Any]:
    if "://" in path:
        return {}  # only TensorFlow reads it, in the first run
    try:
        return config_files.read(path)
    except errors.UserError as error:
        raise errors.UserError(f"--bert_config_file={error}") from None


def _exclusive_lock(
    directory: str, stop: signals.StopRequests
) -> contextlib.AbstractContextManager[tuple[int, ...]]:
    """Keeps other searches out of a directory, as ``locks.exclusive``."""
    holder = "another run_glue works there, or the runs of a killed one still save; wait for them"

    def check_stop() -> None:
        if stop.count:
            raise errors.Stopped(stop.first_signal)

    return locks.exclusive(directory, holder, _LOCK_TIMEOUT, while_waiting=check_stop)


def _write_submission(glue_search: search.Search, flags: glue_options.GlueOptions) -> None:
    """Writes submission.zip if the best run of every task has predicted its test sets.

    The predictions may be those of this command or of earlier ones.
    """
    tables: dict[str, str] = {}
    outdated: list[str] = []  # tasks with predictions of other runs or other test sets
    for task in glue_runs.TASKS:
        tests = data_sets.test_folders(task, flags.data_dir)
        directory = glue_search.prediction_directory(task)
        if glue_search.is_predicted(task, tests):
            tables |= predictions.tables(directory, task, tests)
        elif predictions.exist(directory, task, tests):
            outdated.append(task)
    if not glue_search.has_runs("wnli"):
        tables["WNLI.tsv"] = submission.wnli_without_model()
    path = os.path.join(flags.output_dir, "submission.zip")
    missing = {name: spec.name for name, spec in submission.FILES.items() if name not in tables}
    if not missing:
        submission.write_zip(path, tables)
        _log.info("wrote %s", path)
        return
    _log.info(
        "no submission.zip yet: it needs %s; run their tasks with the same --output_dir, and with "
        "their test files in --data_dir",
        ", ".join(f"{name} ({task})" for name, task in missing.items()),
    )
    for task in outdated:
        _log.warning(
            "%s: the predictions are not of the best run and the present test files; --tasks=%s "
            "makes them again",
            *(task, task),
        )
    if os.path.exists(path):
        _log.warning("%s is left from an earlier command and older than the summary", path)
