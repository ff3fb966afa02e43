"""JSON files of questions: parsing, and errors that say where a file has another layout.

In the layout of SQuAD ``data`` is a list of articles with ``paragraphs``; a paragraph has a
``context`` and ``qas``; each of these has ``id``, ``question`` and ``answers`` with ``text`` and
``answer_start``. Values are taken out of ``Node``s, which know their JSON path for messages.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from command_line import errors
from system import inputs


def load(path: str, layout: str = "SQuAD") -> Any:
    """Parses a JSON file.

    Args:
      path: UTF-8; may be ``.gz`` or remote.
      layout: name of the expected layout, for messages.

    Raises:
      errors.UserError: it is not JSON, or not JSON that Python can read.
    """
    return parse(b"\n".join(inputs.read_lines(path)), path, layout)


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
                f"{self.source}: {path} is {_NAMES[type(value)]}; expected {_NAMES[expected]}"
            )


def top_level(data: Any, source: str, key: str = "data", layout: str = "SQuAD") -> Node:
    """The top level of a parsed file, which should be an object with a key."""
    if not isinstance(data, dict):
        raise errors.UserError(
            f"{source}: the top level is {_NAMES[type(data)]}; expected an object with the key "
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
