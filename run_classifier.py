"""Fine-tunes BERT on single texts or pairs: GLUE, XNLI, SNLI, or a table of your own.

    python run_classifier.py --task_name=MRPC --data_dir=glue_data/MRPC --do_train --do_eval \\
        --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=mrpc

Training goes on from the newest checkpoint in --output_dir. --do_eval writes eval_results.txt,
--do_predict test_results.tsv with a line for each test row: the probabilities of the labels in the
order of labels.txt, or the number of a regression.
"""

import sys
from collections.abc import Sequence

from command_line import app, original_names
from tasks.classifier import options

__getattr__ = original_names.getattr_of("run_classifier")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(
        "tasks.classifier.fine_tune:run",
        options.GROUPS,
        __doc__,
        argv,
        prepare="tasks.classifier.data:read",
    )


if __name__ == "__main__":
    sys.exit(main())
