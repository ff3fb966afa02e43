"""Fine-tunes BERT on single texts or pairs: GLUE, XNLI, SNLI, or a table of your own.

    python run_classifier.py --task_name=MRPC --data_dir=glue_data/MRPC --do_train --do_eval \\
        --vocab_file=vocab.txt --bert_config_file=bert_config.json \\
        --init_checkpoint=bert_model.ckpt --output_dir=mrpc

Training goes on from the newest checkpoint in --output_dir. --do_eval writes eval_results.txt,
--do_predict test_results.tsv with a line for each test row: the probabilities of the labels in the
order of labels.txt, or the number of a regression.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from command_line import app, original_names
from tasks.classifier import data, options

# Names of the original release, for code that was written against it.
from tasks.classifier.examples import (
    DataProcessor,
    InputExample,
    InputFeatures,
    PaddingInputExample,
)
from tasks.classifier.features import (
    _truncate_seq_pair,
    convert_examples_to_features,
    convert_single_example,
)
from tasks.classifier.glue_tasks import (
    ColaProcessor,
    MnliProcessor,
    MrpcProcessor,
    XnliProcessor,
)

__all__ = [
    "ColaProcessor",
    "DataProcessor",
    "InputExample",
    "InputFeatures",
    "MnliProcessor",
    "MrpcProcessor",
    "PaddingInputExample",
    "XnliProcessor",
    "_truncate_seq_pair",
    "convert_examples_to_features",
    "convert_single_example",
    "main",
]

__getattr__ = original_names.getattr_of("run_classifier")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    work = "tasks.classifier.fine_tune:run"
    return app.run(work, options.GROUPS, __doc__, argv, prepare=data.read)


if __name__ == "__main__":
    sys.exit(main())
