"""Speed and memory of what run_squad does around the model: features, and answers from logits.

  python benchmarks/squad_data.py --vocab_file=vocab.txt --predict_file=dev-v1.1.json

The logits are random. Each row is measured in a process of its own, so that its peak memory is its
own; that of the worker processes is added. The original release took, on one core of the same kind
of machine, 66 s for the features of dev-v1.1 and 63 s for the answers, with a peak of 1.1 GB.
"""

import argparse
import multiprocessing
import pathlib
import resource
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tokenization  # noqa: E402
from tasks.squad import answers as squad_answers  # noqa: E402
from tasks.squad import examples as squad_examples  # noqa: E402
from tasks.squad import features as squad_features  # noqa: E402
from tasks.squad import logits as squad_logits  # noqa: E402
from tasks.squad import options as squad_options  # noqa: E402
from tasks.squad import prediction_files  # noqa: E402
from training import ragged  # noqa: E402

ORIGINAL_FEATURES, ORIGINAL_ANSWERS, ORIGINAL_MEGABYTES = 66.0, 63.0, 1100.0


def measure(arguments: argparse.Namespace, workers: int, padded: bool, version_2: bool) -> None:
    """Prints times and peak memory of one run."""
    begin = time.perf_counter()
    tokenizer = tokenization.FullTokenizer(arguments.vocab_file)
    examples = squad_examples.read(arguments.predict_file, is_training=False)
    read = time.perf_counter()
    options = squad_options.SquadOptions(
        max_seq_length=arguments.max_seq_length,
        num_workers=workers,
        version_2_with_negative=version_2,
    )
    features = squad_features.build(examples, tokenizer, options)
    built = time.perf_counter()
    lengths = features.input_ids.lengths
    if padded:
        lengths = np.full_like(lengths, arguments.max_seq_length)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    random = np.random.default_rng(1)
    logits = squad_logits.Logits(
        *(
            ragged.Ragged(3 * random.standard_normal(offsets[-1], np.float32), offsets)
            for _ in range(2)
        )
    )
    start = time.perf_counter()
    answers = squad_answers.answer(examples, features, logits, tokenizer, options)
    chosen = time.perf_counter()
    with tempfile.TemporaryFile("w") as file:
        file.write(prediction_files.map_json(answers.predictions))
        file.write(prediction_files.nbest_json(answers.nbest, offsets=False))
    written = time.perf_counter()
    megabytes = sum(
        resource.getrusage(who).ru_maxrss / 1024 * (1 if who == resource.RUSAGE_SELF else workers)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"{workers} worker(s), {'padded' if padded else 'real'} logits, "
        f"version {2 if version_2 else 1}: {len(examples.questions)} questions, {len(lengths)} "
        f"windows; vocabulary and file {read - begin:.2f} s, features {built - read:.2f} s "
        f"({ORIGINAL_FEATURES / (built - begin):.0f} times the original, reading included), "
        f"answers {chosen - start:.2f} s, files {written - chosen:.2f} s "
        f"({ORIGINAL_ANSWERS / (written - start):.0f} times); peak {megabytes:.0f} MB "
        f"({megabytes / ORIGINAL_MEGABYTES:.0%})",
        flush=True,
    )


def main() -> None:
    """Measures one and two workers, real and padded logits, both versions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--predict_file", required=True)
    parser.add_argument("--max_seq_length", type=int, default=384)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for workers, padded, version_2 in ((1, False, False), (2, False, False), (1, True, True)):
        run = context.Process(target=measure, args=(arguments, workers, padded, version_2))
        run.start()
        run.join()


if __name__ == "__main__":
    main()
