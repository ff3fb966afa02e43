"""Fine-tunes BERT on SQuAD 1.1, SQuAD 2.0 or questions in their layout; answers and scores.

    python run_squad.py --do_train --train_file=train-v1.1.json --do_predict --do_eval \\
        --predict_file=dev-v1.1.json --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=squad

Training goes on from the newest checkpoint in --output_dir. --do_predict writes predictions.json,
nbest_predictions.json and, with --version_2_with_negative, null_odds.json; --do_eval writes
eval_results.txt and eval_results.json.
"""

import sys
from collections.abc import Sequence

from command_line import app, original_names
from tasks.squad import options

__getattr__ = original_names.getattr_of("run_squad")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(
        "tasks.squad.fine_tune:run",
        options.GROUPS,
        __doc__,
        argv,
        prepare="tasks.squad.data:read",
    )


if __name__ == "__main__":
    sys.exit(main())
