"""Pre-trains a BERT model on the records of create_pretraining_data.py, and evaluates it.

    python run_pretraining.py --bert_config_file=bert_config.json --input_file=records.tfrecord \\
        --output_dir=run --do_train --do_eval --num_train_steps=10000 --num_warmup_steps=1000

Training resumes from the newest checkpoint in --output_dir. SIGTERM or Ctrl-C saves and ends the
run; the same command continues it. Evaluation counts each record of --eval_file (unset:
--input_file) once, up to --max_eval_steps batches, and writes eval_results.txt, or
eval_results-<step>.txt for a checkpoint that --eval_checkpoint names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from command_line import app, options
from tasks.pretraining import options as pretraining_options

GROUPS = (
    pretraining_options.PretrainingOptions,
    options.ModelOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)

# Functions of the original release, and what takes their place.
_REPLACED = {
    "get_masked_lm_output": "tasks.pretraining.objectives.MaskedLm",
    "get_next_sentence_output": "tasks.pretraining.objectives.MaskedLm",
    "gather_indexes": "modeling.BertModel.encode_positions, or tf.gather(..., batch_dims=1)",
    "model_fn_builder": "tasks.pretraining.objectives.create_objective with training.loop.Trainer",
    "input_fn_builder": "tasks.pretraining.record_batches.RecordBatches",
}


def __getattr__(name: str) -> object:
    if name in _REPLACED:
        raise AttributeError(f"run_pretraining.{name} is replaced by {_REPLACED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns its exit status."""
    return app.run(
        "tasks.pretraining.pretrain:pretrain",
        GROUPS,
        __doc__,
        argv,
        prepare=pretraining_options.check_pretraining_flags,
    )


if __name__ == "__main__":
    sys.exit(main())
