"""Speed of FullTokenizer.encode against the Rust package `tokenizers`, one thread each.

  pip install tokenizers
  python benchmarks/tokenizer_speed.py --vocab_file=vocab.txt --input_file='corpus/*.txt'

Cold is a first pass with empty caches, warm a second one over the same text. Times are processor
seconds; the two sides take turns and the best round counts, so that other work on the machine
slows both down alike.
"""

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
# `tokenizers` reads these when it is imported.
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenization  # noqa: E402
from system import inputs  # noqa: E402

COLD_GOAL, WARM_GOAL = 3.0, 8.0


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call, including its threads."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Measures and prints MB/s and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    import tokenizers

    rust = tokenizers.BertWordPieceTokenizer(arguments.vocab_file, lowercase=True)
    files = inputs.expand("input_file", arguments.input_file)
    lines = [
        tokenization.convert_to_unicode(line) for path in files for line in inputs.read_lines(path)
    ]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6

    cold, warm, batch, single = [], [], [], []
    for _ in range(arguments.rounds):
        ours = tokenization.FullTokenizer(arguments.vocab_file)
        cold.append(seconds(lambda: ours.encode_batch(lines)))  # noqa: B023 - called at once
        warm.append(seconds(lambda: ours.encode_batch(lines)))  # noqa: B023
        batch.append(
            seconds(lambda: [e.ids for e in rust.encode_batch(lines, add_special_tokens=False)])
        )
        single.append(
            seconds(lambda: [rust.encode(line, add_special_tokens=False).ids for line in lines])
        )
    same = sum(
        ours.encode(line) == rust.encode(line, add_special_tokens=False).ids for line in lines
    )
    theirs = min(batch + single)
    print(f"{megabytes:.2f} MB, {len(lines)} lines, {same} of them with the same ids")
    print(f"tokenizers {tokenizers.__version__}: {megabytes / theirs:.2f} MB/s")
    for name, times, goal in (("cold", cold, COLD_GOAL), ("warm", warm, WARM_GOAL)):
        ratio = theirs / min(times)
        print(
            f"encode {name}: {megabytes / min(times):.2f} MB/s, {ratio:.1f} times tokenizers "
            f"(goal {goal:g}: {'reached' if ratio >= goal else 'missed'})"
        )


if __name__ == "__main__":
    main()
