"""Converts other question sets to the JSON layout of SQuAD, for run_squad.py.

    python convert_to_squad.py --input_format=triviaqa --input_file=qa/wikipedia-train.json \\
        --evidence_dir=evidence/wikipedia --output_file=triviaqa.json

    python convert_to_squad.py --input_format=mrqa --input_file=NewsQA.jsonl.gz \\
        --output_file=newsqa.json

TriviaQA: one question for each document with an answer among its first tokens, as BERT was
fine-tuned on it before SQuAD. MRQA: the first place of each detected answer; if questions have
several, train with --answer_policy=first; questions without one are left out.
"""

import json
import logging
import os
import sys
from collections.abc import Sequence

from command_line import app, errors
from system import atomic_files, inputs, outputs
from tasks.squad import mrqa, triviaqa
from tasks.squad import options as squad_options

_log = logging.getLogger(__name__)


def convert(flags: squad_options.ConvertOptions) -> None:
    """Reads one file and writes another.

    Raises:
      errors.UserError: the file has another layout, or no question could be made of it.
    """
    sources = inputs.expand("input_file", flags.input_file)
    if len(sources) > 1:
        raise errors.FlagError(f"--input_file names {len(sources)} files; give one")
    (output,) = outputs.check_files("output_file", [flags.output_file], sources)
    if flags.input_format == "mrqa":
        converted = mrqa.read(sources[0])
    else:
        converted = triviaqa.read(sources[0], flags.evidence_dir, flags.max_tokens, output)
    app.import_tensorflow()
    import tensorflow as tf

    tf.io.gfile.makedirs(os.path.dirname(output))
    atomic_files.write_text(output, json.dumps(converted) + "\n")
    questions = sum(
        len(paragraph["qas"])
        for article in converted["data"]
        for paragraph in article["paragraphs"]
    )
    _log.info("wrote %d questions to %s", questions, flags.output_file)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(convert, [squad_options.ConvertOptions], __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
