"""Fine-tunes BERT on all tasks of GLUE: every learning rate with every seed, the best run of each.

    python run_glue.py --data_dir=glue_data --vocab_file=vocab.txt \\
        --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt --output_dir=glue

Each run is a run_classifier.py of its own in <output_dir>/<task>/lr<rate>-seed<seed>/, with what it
says in log.txt. After the runs of a task the best one predicts the test set. summary.txt, .md and
.json are written again after every run; submission.zip when the best run of every task has
predicted. Stopped or killed, the same command goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tokenization
from command_line import app, errors, options
from system import outputs
from tasks.glue import data_sets, jobs, search, submission
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)

_PATIENCE = 60.0  # seconds that the runs of a killed run_glue are given to save


def run_search(
    flags: glue_options.GlueOptions,
    each: glue_options.GlueRunOptions,
    text: options.TokenizerOptions,
    model: options.ModelOptions,
    device: options.DeviceOptions,
) -> None:
    """Makes all runs that are not made yet, the predictions, the summary and the submission.

    Raises:
      errors.FlagError: flags that are wrong, or not those of the runs that are there.
      errors.UserError: data or model files that are missing or wrong; runs that failed.
    """
    if "://" in flags.output_dir:
        raise errors.FlagError(f"--output_dir={flags.output_dir}: expected a local directory")
    outputs.check_directory("output_dir", flags.output_dir)
    plan = glue_runs.plan(flags)
    _check_flags(each, model, device)
    _check_model(each, text, model)
    if not os.path.isdir(flags.data_dir):
        raise errors.UserError(f"--data_dir={flags.data_dir}: there is no such folder")
    tasks = list(dict.fromkeys(run.task for run in plan))
    skip = each.skip_bad_rows
    sets = {task: data_sets.read(task, flags.data_dir, skip_bad_rows=skip) for task in tasks}
    os.makedirs(flags.output_dir, exist_ok=True)
    with jobs.Stop() as stop, _alone(flags.output_dir, stop) as lock:
        work = search.Search(flags, plan, sets, (each, text, model, device), stop)
        work.check_flags()
        work.begin()
        jobs.run_all(
            work.queue,
            flags.jobs,
            work.done,
            starts=work.starts,
            environment=jobs.share_of_threads(flags.jobs),
            inherited=lock,
            stop=stop,
        )
        if work.refusal:
            raise errors.FlagError(work.refusal)
        print(work.write_summary())
        if stop.requests:
            _log.info("stopped; the same command goes on")
            return
        _write_submission(work, flags.data_dir)
    work.report_failures()


def _check_flags(
    each: glue_options.GlueRunOptions, model: options.ModelOptions, device: options.DeviceOptions
) -> None:
    """Refuses flags that would do nothing beside the others."""
    if each.new_head and not model.init_checkpoint:
        raise errors.FlagError("--new_head does nothing without --init_checkpoint; add it")
    idle = ["tpu_name", "master", "iterations_per_loop"]
    if device.use_tpu:
        idle = ["num_gpus", "num_cpu_devices"]
    why = f"does nothing {'with' if device.use_tpu else 'without'} --use_tpu; leave it out"
    for group in (each, device):
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if field.name in idle and value != field.default:
                raise errors.FlagError(f"--{field.name}={value} {why}")


def _check_model(
    each: glue_options.GlueRunOptions, text: options.TokenizerOptions, model: options.ModelOptions
) -> None:
    """Checks what can be checked of the model's files without TensorFlow."""
    config = _read_config(model.bert_config_file)
    positions = config.get("max_position_embeddings", 512)
    if isinstance(positions, int) and each.max_seq_length > positions:
        raise errors.FlagError(
            f"--max_seq_length={each.max_seq_length}: the model has max_position_embeddings "
            f"{positions} ({model.bert_config_file})"
        )
    init = model.init_checkpoint
    tokenization.validate_case_matches_checkpoint(text.do_lower_case, init)
    tokenizer = tokenization.create_tokenizer(text)
    size = config.get("vocab_size")
    tokenization.check_vocab(
        tokenizer, text.vocab_file, vocab_size=size if isinstance(size, int) else None
    )
    if init and "://" not in init and not any(map(os.path.exists, (init, f"{init}.index"))):
        raise errors.UserError(
            f"--init_checkpoint={init}: not found; expected a checkpoint prefix, a directory or a "
            ".safetensors file"
        )


def _read_config(path: str) -> Mapping[str, Any]:
    if "://" in path:
        return {}  # the first run reads it
    try:
        with open(path, encoding="utf-8-sig") as file:
            config = json.load(file)
    except OSError as error:
        raise errors.UserError(
            f"--bert_config_file={path}: cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise errors.UserError(f"--bert_config_file={path}: not a JSON file: {error}") from None
    if not isinstance(config, dict):
        raise errors.UserError(f"--bert_config_file={path}: expected a JSON object")
    return config


@contextlib.contextmanager
def _alone(directory: str, stop: jobs.Stop) -> Iterator[tuple[int, ...]]:
    """Keeps other searches out of a directory; yields the open file that holds the lock.

    The runs share that file, so the lock lasts until the last of them has saved and ended.

    Raises:
      errors.UserError: another search is at work there.
    """
    if fcntl is None:
        yield ()
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _wait_for(descriptor, directory, stop)
        yield (descriptor,)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, directory: str, stop: jobs.Stop) -> None:
    end = time.monotonic() + _PATIENCE
    told = False
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > end or stop.requests:
            raise errors.UserError(
                f"--output_dir={directory}: another run_glue works there, or the runs of a killed "
                "one are still saving; wait for them, or take another directory"
            )
        if not told:
            _log.info("waiting for the runs of another run_glue in %s", directory)
        told = True
        time.sleep(0.2)


def _write_submission(work: search.Search, data_dir: str) -> None:
    """Writes submission.zip from the predictions of this command and of those before it.

    A task is in it only with the predictions of the run that is its best one in the summary.
    """
    tables: dict[str, str] = {}
    others: list[str] = []  # tasks with predictions of another run
    for task in glue_runs.TASKS:
        tests, directory = data_sets.test_folders(task, data_dir), work.test_directory(task)
        if work.is_predicted(task, tests):
            tables |= data_sets.tables(task, tests, directory)
        elif data_sets.are_predicted(task, tests, directory):
            others.append(task)
    if not work.has_runs("wnli"):
        tables["WNLI.tsv"] = data_sets.wnli_without_model()
    path = os.path.join(work.output_dir, "submission.zip")
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
    for task in others:
        _log.warning(
            "%s: the predictions are of another run than the best one; --tasks=%s makes them anew",
            *(task, task),
        )
    if os.path.exists(path):
        _log.warning("%s is left from an earlier command and older than the summary", path)


GROUPS = (
    glue_options.GlueOptions,
    glue_options.GlueRunOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.DeviceOptions,
)


def main(argv: Sequence[str] | None = None) -> int:
    return app.run(run_search, GROUPS, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
