"""Fine-tunes Hugging Face BertForSequenceClassification the way run_classifier.py does.

    hf/bin/python benchmarks/glue_torch.py --task=mrpc --data_dir=glue_data/MRPC --model_dir=DIR \\
        --epochs=3 --seed=1

The other side of the table of fine-tuning results; see ``torch_fine_tuning``.
"""

import pathlib
import sys
import time
from typing import Any

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tokenization
import torch_fine_tuning
from tasks.classifier import examples, glue_tasks, metrics
from tasks.classifier import features as classifier_features
from tasks.classifier import options as classifier_options


def evaluate(model: Any, features: classifier_features.Features, processor: Any) -> dict[str, Any]:
    """The metrics of the task, on the development set."""
    logits = np.zeros([len(features.label_ids), model.config.num_labels], np.float32)
    with torch.no_grad():
        for rows in torch_fine_tuning.by_length(features.input_ids.lengths):
            batch = torch_fine_tuning.batch_of(features.input_ids, features.segment_ids, rows)
            logits[rows] = model(**batch).logits.numpy()
    names = examples.metrics_of(processor)
    return metrics.compute(names, features.label_ids, logits, processor.kind)


def main() -> None:
    """Trains, and prints the scores of the development set."""
    parser = torch_fine_tuning.parser(__doc__.split("\n")[0])
    parser.add_argument("--task", required=True)
    parser.add_argument("--data_dir", required=True)
    flags = parser.parse_args()
    torch.manual_seed(flags.seed)
    processor = glue_tasks.create_processor(flags.task)
    labels = processor.get_labels()
    tokenizer = tokenization.FullTokenizer(f"{flags.model_dir}/vocab.txt")
    options = classifier_options.ClassifierOptions(max_seq_length=128)
    train, dev = (
        classifier_features.encode(found, labels, options, tokenizer, processor.kind)
        for found in (
            processor.get_train_examples(flags.data_dir),
            processor.get_dev_examples(flags.data_dir),
        )
    )
    is_regression = processor.kind == examples.REGRESSION
    model = torch_fine_tuning.create_model(
        transformers.BertForSequenceClassification,
        flags.model_dir,
        {"classifier.weight", "classifier.bias"},
        num_labels=len(labels) or 1,
        problem_type="regression" if is_regression else None,
    )
    targets = torch.tensor(train.label_ids)
    targets = targets if is_regression else targets.long()

    def loss_of(rows: np.ndarray) -> torch.Tensor:
        batch = torch_fine_tuning.batch_of(train.input_ids, train.segment_ids, rows)
        return model(**batch, labels=targets[rows]).loss

    count = len(targets)
    steps = int(count / torch_fine_tuning.BATCH_SIZE * flags.epochs)
    started = time.time()
    torch_fine_tuning.train(model, loss_of, count, steps, flags.learning_rate)
    seconds = time.time() - started
    found = evaluate(model, dev, processor)
    shown = ", ".join(f"{name} = {value:.4f}" for name, value in found.items())
    print(
        f"{flags.task} seed {flags.seed} rate {flags.learning_rate:g}: {shown} "
        f"({steps} steps, {seconds:.0f} s)"
    )


if __name__ == "__main__":
    main()
