"""Peak memory of fine-tuning by model size, text length and batch.

    python benchmarks/memory.py --sizes=6x384,12x768 --shapes=128x32,384x16

Each row runs run_classifier.py for three steps from random weights, in a process of its own, on
texts that fill the whole length, and prints the largest resident memory of that process.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
STEPS = 3


def measure(layers: int, hidden: int, length: int, batch: int, flags: list[str]) -> float:
    """Peak resident memory of a training run, in GB."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = {
            "vocab_size": 30522,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
            "type_vocab_size": 2,
        }
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "word"]) + "\n")
        rows = [f"{'word ' * length}\t{row % 2}\n" for row in range(STEPS * batch)]
        (folder / "train.tsv").write_text("".join(rows))
        command = [
            sys.executable, str(ROOT / "run_classifier.py"), "--task_name=custom", "--do_train",
            f"--train_file={folder / 'train.tsv'}", "--text_a_column=0", "--label_column=1",
            f"--bert_config_file={folder / 'config.json'}", f"--vocab_file={folder / 'vocab.txt'}",
            f"--output_dir={folder / 'out'}", f"--max_seq_length={length}",
            f"--train_batch_size={batch}", "--num_train_epochs=1", *flags,
        ]  # fmt: skip
        with open(folder / "log.txt", "w+", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                log.seek(0)
                sys.exit(log.read()[-2000:])
    return usage.ru_maxrss / 1e6  # Linux counts in kB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="6x384,12x768", help="layers x hidden, comma separated")
    parser.add_argument("--shapes", default="128x32,384x16", help="length x batch")
    options, flags = parser.parse_known_args()  # the others go to run_classifier.py
    for size in options.sizes.split(","):
        for shape in options.shapes.split(","):
            layers, hidden = map(int, size.split("x"))
            length, batch = map(int, shape.split("x"))
            peak = measure(layers, hidden, length, batch, flags)
            print(f"{size}\tlength {length}\tbatch {batch}\t{peak:.1f} GB", flush=True)


if __name__ == "__main__":
    main()
