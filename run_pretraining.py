"""Pre-trains a BERT model on the records of create_pretraining_data.py, and evaluates it.

    python run_pretraining.py --bert_config_file=bert_config.json --input_file=records.tfrecord \\
        --output_dir=run --do_train --do_eval --num_train_steps=10000 --num_warmup_steps=1000

Training resumes from the newest checkpoint in --output_dir. SIGTERM or Ctrl-C saves and ends the
run; the same command continues it. Evaluation counts each record of --eval_file (unset:
--input_file) once, up to --max_eval_steps batches, and writes eval_results.txt, or
eval_results-<step>.txt for a checkpoint that --eval_checkpoint names.
"""

import sys
from collections.abc import Sequence

from command_line import app, options, original_names
from tasks.pretraining import options as pretraining_options

GROUPS = (
    pretraining_options.PretrainingOptions,
    options.ModelOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)

__getattr__ = original_names.getattr_of("run_pretraining")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(
        "tasks.pretraining.pretrain:pretrain",
        GROUPS,
        __doc__,
        argv,
        prepare=pretraining_options.check_pretraining_flags,
    )


if __name__ == "__main__":
    sys.exit(main())
