"""JSON files of questions: parsing, and errors that say where a file has another layout.

In the layout of SQuAD ``data`` is a list of articles with ``paragraphs``; a paragraph has a
``context`` and ``qas``; each of these has ``id``, ``question`` and ``answers`` with ``text`` and
``answer_start``. Values are taken out of ``Node``s, which know their JSON path for messages.

The Hugging Face hub has the same sets as flat rows, a question each: ``load_questions`` reads them
as an object a line, as a list, or under "data", and nests them.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from command_line import errors
from system import inputs, parquet_files

_log = logging.getLogger(__name__)


def load_questions(path: str) -> Any:
    """Parses a file of questions, nested or flat, into the nested layout of SQuAD.

    Raises:
      errors.UserError: as ``load``; or a flat row of another layout.
    """
    if path.lower().endswith(".parquet"):
        numbered = enumerate(parquet_files.read_rows(path), 1)
        return _nested(Node(row, path, f"row {number}") for number, row in numbered)
    data = inputs.read_bytes(path)
    first, _, rest = data.strip().partition(b"\n")
    if first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{"):  # an object a line
        return _nested(parse_lines(data.removesuffix(b"\n").split(b"\n"), path, "context"))
    value = parse(data, path)
    if isinstance(value, dict) and "context" in value and "question" in value:  # a single line
        return _nested([Node(value, path)])
    rows: Any = value.get("data") if isinstance(value, dict) else value
    if not (isinstance(rows, list) and rows and isinstance(rows[0], dict) and "context" in rows[0]):
        return value
    key = "data" if isinstance(value, dict) else ""
    return _nested(Node({key: rows}, path).objects(key))


def _nested(rows: Iterable["Node"]) -> Any:
    """Flat rows in the nested layout; neighbours with the same context share a paragraph.

    All types are checked here, where the place of a row in its file is known.
    """
    paragraphs: list[dict[str, Any]] = []
    for row in rows:
        context = row.take("context", str)
        qa: dict[str, Any] = {"id": take_id(row), "question": row.take("question", str)}
        if row.value.get("is_impossible") is not None:
            qa["is_impossible"] = row.take("is_impossible", bool)
        if row.value.get("answers") is not None:
            qa["answers"] = _answers(row.child("answers"))
        if not paragraphs or paragraphs[-1]["context"] != context:
            paragraphs.append({"context": context, "qas": []})
        paragraphs[-1]["qas"].append(qa)
    return {"data": [{"paragraphs": paragraphs}]}


def _answers(answers: "Node") -> list[dict[str, Any]]:
    texts = [text for _, text in answers.items("text", str)]
    starts = [start for _, start in answers.items("answer_start", int)]
    if len(texts) != len(starts):
        raise errors.UserError(
            f"{answers.where} has {len(texts)} text and {len(starts)} answer_start; expected as "
            "many of both"
        )
    pairs = zip(texts, starts, strict=True)
    return [{"text": text, "answer_start": start} for text, start in pairs]


def parse_lines(
    lines: Iterable[bytes], path: str, key: str, layout: str = "SQuAD"
) -> Iterator["Node"]:
    """Yields the object in each line; blank lines before others are left out, with a warning.

    Args:
      lines: UTF-8 text.
      path: the file, for messages.
      key: that the first object should have, for messages.
      layout: name of the expected layout, for messages.

    Raises:
      errors.UserError: naming the line that is not JSON, or not an object.
    """
    blank: list[int] = []
    last = 0  # line with an object
    for number, line in enumerate(lines, 1):
        if not line.strip():
            blank.append(number)
            continue
        last = number
        value = parse(line, path, layout, number)
        yield top_level(value, f"{path}:{number}", key, layout)
    between = [number for number in blank if number < last]
    if between:
        _log.warning("%s: left out blank lines: %s", path, errors.some(between))


def load(path: str, layout: str = "SQuAD") -> Any:
    """Parses a JSON file.

    Args:
      path: UTF-8; may be gzip-compressed or remote.
      layout: name of the expected layout, for messages.

    Raises:
      errors.UserError: it is not JSON, or not JSON that Python can read.
    """
    return parse(inputs.read_bytes(path), path, layout)


def parse(data: bytes, path: str, layout: str = "SQuAD", number: int | None = None) -> Any:
    """As ``load``, of UTF-8 text: a whole file, or the single line of this number, from 1."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = number or data.count(b"\n", 0, error.start) + 1
        raise errors.UserError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        lines = " (it holds one JSON object a line)" if error.msg == "Extra data" else ""
        raise errors.UserError(
            f"{path}:{number or error.lineno}: not JSON in the layout of {layout}: {error.msg}, "
            f"column {error.colno}{lines}"
        ) from None
    except (RecursionError, ValueError) as error:
        # The only other ValueError is an integer of more digits than Python converts.
        flaw = "a number has too many digits"
        if isinstance(error, RecursionError):
            flaw = "lists or objects are nested too deeply"
        where = path if number is None else f"{path}:{number}"
        raise errors.UserError(f"{where}: {flaw}; expected the layout of {layout}") from None


_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number with a fraction",
    bool: "true or false",
    type(None): "null",
}


def _name(value: Any) -> str:
    return _NAMES.get(type(value), type(value).__name__)  # Parquet has bytes, dates and more


class Node(NamedTuple):
    """An object in a JSON file.

    Attributes:
      value: the object.
      source: the file.
      json_path: its JSON path; "" is the top level.
      layout: name of the expected layout.
    """

    value: Mapping[str, Any]
    source: str
    json_path: str = ""
    layout: str = "SQuAD"

    @property
    def where(self) -> str:
        """File and JSON path, for messages."""
        return f"{self.source}: {self.json_path or 'the top level'}"

    def path(self, key: str) -> str:
        """The JSON path of a key."""
        return f"{self.json_path}.{key}" if self.json_path else key

    def take(self, key: str, expected: type) -> Any:
        """The value of a key, which must have the expected type."""
        try:
            value = self.value[key]
        except KeyError:
            keys = ", ".join(map(repr, list(self.value)[:8])) or "nothing"
            raise errors.UserError(
                f"{self.where} has no {key!r}, only {keys}; expected the layout of {self.layout}"
            ) from None
        self._check(value, expected, self.path(key))
        return value

    def child(self, key: str) -> "Node":
        """The object under a key."""
        return self._replace(value=self.take(key, dict), json_path=self.path(key))

    def items(self, key: str, expected: type) -> Iterator[tuple[str, Any]]:
        """Yields path and value of each item, all of the expected type, in the list of a key."""
        for index, item in enumerate(self.take(key, list)):
            path = f"{self.path(key)}[{index}]"
            self._check(item, expected, path)
            yield path, item

    def objects(self, key: str) -> Iterator["Node"]:
        """Yields the objects in the list of a key."""
        for path, item in self.items(key, dict):
            yield self._replace(value=item, json_path=path)

    def _check(self, value: Any, expected: type, path: str) -> None:
        if type(value) is not expected:
            raise errors.UserError(
                f"{self.source}: {path} is {_name(value)}; expected {_NAMES[expected]}"
            )


def top_level(data: Any, source: str, key: str = "data", layout: str = "SQuAD") -> Node:
    """The top level of a parsed file, which should be an object with a key."""
    if not isinstance(data, dict):
        raise errors.UserError(
            f"{source}: the top level is {_name(data)}; expected an object with the key "
            f"{key!r} (the layout of {layout})"
        )
    return Node(data, source, layout=layout)


def paragraphs(data: Any, source: str) -> Iterator[Node]:
    """Yields the paragraphs of a parsed file in the layout of SQuAD."""
    for article in top_level(data, source).objects("data"):
        yield from article.objects("paragraphs")


def take_id(qa: Node) -> str:
    """The id of a question."""
    # Some sets number their questions; as keys of the output files numbers become text anyway.
    if type(qa.value.get("id")) is int:
        return str(qa.value["id"])
    return qa.take("id", str)
