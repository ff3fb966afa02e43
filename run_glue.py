"""Fine-tunes BERT on the tasks of GLUE with every learning rate and seed, and keeps the best runs.

    python run_glue.py --data_dir=glue_data --vocab_file=vocab.txt \\
        --bert_config_file=bert_config.json --init_checkpoint=bert_model.ckpt --output_dir=glue

Each run is a run_classifier.py process in <output_dir>/<task>/lr<rate>-seed<seed>/, with its
messages in log.txt. After the runs of a task the best one predicts the test set. summary.txt, .md
and .json are rewritten after every run, and submission.zip when the best run of every task has
predicted. After a stop or a kill, run the same command again to continue.
"""

import sys
from collections.abc import Sequence

from command_line import app
from tasks.glue import options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    work = "tasks.glue.command:run_search"
    return app.run(work, options.GROUPS, __doc__, argv, needs_tensorflow=False)


if __name__ == "__main__":
    sys.exit(main())
