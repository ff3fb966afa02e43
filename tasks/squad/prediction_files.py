"""The files of a prediction: predictions.json, nbest_predictions.json, null_odds.json."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from json import encoder

from command_line import errors
from system import atomic_files
from tasks.squad import answers as squad_answers
from tasks.squad import options as squad_options

_PREDICTIONS, _NBEST, _NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_places(directory: str, version_2: bool) -> None:
    """Checks before the work that ``write`` can write its files into a directory.

    It need not exist yet; paths with ``://`` are not checked.

    Raises:
      errors.UserError: one of the names belongs to a directory.
    """
    for name in (_PREDICTIONS, _NBEST, *([_NULL_ODDS] if version_2 else [])):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            raise errors.UserError(
                f"{path} is a directory; expected a file, or none, where the answers are written: "
                "move it away or give another --output_dir"
            )


def write(
    directory: str, answers: squad_answers.Answers, options: squad_options.SquadOptions
) -> None:
    """Writes predictions.json, nbest_predictions.json and, in version 2, null_odds.json.

    No file is replaced before all are on the disk, so that files of two runs are never mixed; in
    version 1 the null_odds.json of an earlier run is removed.

    Args:
      directory: it exists.
      answers: their null_odds are empty in version 1.
      options: nbest_offsets and ensure_ascii.
    """
    import tensorflow as tf

    texts = {
        _PREDICTIONS: map_json(answers.predictions, options.ensure_ascii),
        _NBEST: nbest_json(answers.nbest, options.nbest_offsets, options.ensure_ascii),
    }
    if answers.null_odds:
        texts[_NULL_ODDS] = map_json(answers.null_odds, options.ensure_ascii)
    written: dict[str, str] = {}  # temporary path → final path
    try:
        for name, text in texts.items():
            path = os.path.join(directory, name)
            atomic_files.write_text(f"{path}.new", text)
            written[f"{path}.new"] = path
        for temporary, path in written.items():
            tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        for temporary in filter(tf.io.gfile.exists, written):
            tf.io.gfile.remove(temporary)
        raise
    odds = os.path.join(directory, _NULL_ODDS)
    if not answers.null_odds and tf.io.gfile.exists(odds) and not tf.io.gfile.isdir(odds):
        tf.io.gfile.remove(odds)


def map_json(values: Mapping[str, str | float], ensure_ascii: bool = True) -> str:
    """JSON with an indent of 4 and a final newline, as the original release writes it."""
    return _encodable(json.dumps(values, indent=4, ensure_ascii=ensure_ascii) + "\n")


def nbest_json(
    nbest: Mapping[str, Sequence[squad_answers.Entry]],
    offsets: bool = False,
    ensure_ascii: bool = True,
) -> str:
    """As ``map_json``, written by hand: ``json.dumps`` with an indent takes ten times as long."""
    quoted = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    number = float.__repr__
    blocks = []
    for qas_id, entries in nbest.items():
        rows = []
        for text, probability, start_logit, end_logit, start, end in entries:
            span = f',\n            "start": {start},\n            "end": {end}' if offsets else ""
            rows.append(
                f'        {{\n            "text": {quoted(text)},\n'
                f'            "probability": {number(probability)},\n'
                f'            "start_logit": {number(start_logit)},\n'
                f'            "end_logit": {number(end_logit)}{span}\n        }}'
            )
        blocks.append(f"    {quoted(qas_id)}: [\n" + ",\n".join(rows) + "\n    ]")
    return _encodable("{\n" + ",\n".join(blocks) + "\n}\n" if blocks else "{}\n")


def _encodable(text: str) -> str:
    """Escapes lone surrogates, which JSON can represent but UTF-8 cannot."""
    return text if text.isascii() else _SURROGATE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
