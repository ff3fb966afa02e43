"""The layout of SQuAD's JSON files, and what is said where a file has another.

``data`` is a list of articles with ``paragraphs``; a paragraph has a ``context`` and ``qas``; each
of these has ``id``, ``question`` and ``answers`` with ``text`` and ``answer_start``. Wherever a
value is taken out, its JSON path comes along for messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import errors
import inputs


def load(path: str) -> Any:
    """Parses a JSON file.

    Args:
      path: UTF-8; may be ``.gz`` or remote.

    Raises:
      errors.UserError: it is no JSON.
    """
    data = b"\n".join(inputs.read_lines(path))
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise errors.UserError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        lines = " (it holds one JSON object a line)" if error.msg == "Extra data" else ""
        raise errors.UserError(
            f"{path}:{error.lineno}: not JSON in the layout of SQuAD: {error.msg}, column "
            f"{error.colno}{lines}"
        ) from None


def paragraphs(data: Any, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the JSON path and the object of each paragraph of a parsed file."""
    if not isinstance(data, dict):
        raise errors.UserError(
            f"{source}: the top level is {_KINDS[type(data)]}; expected an object with the key "
            "'data' (the layout of SQuAD)"
        )
    for at, article in each(data, "data", "", source):
        yield from each(article, "paragraphs", at, source)


def questions_of(
    paragraph: Mapping[str, Any], at: str, source: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yields the JSON path, the id and the object of each question of a paragraph."""
    for qa_at, qa in each(paragraph, "qas", at, source):
        yield qa_at, take_id(qa, qa_at, source), qa


def answer_texts(qa: Mapping[str, Any], at: str, source: str) -> list[str]:
    """The texts of a question's answers."""
    return [
        take(answer, "text", str, answer_at, source)
        for answer_at, answer in each(qa, "answers", at, source)
    ]


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number with a fraction",
    bool: "true or false",
    type(None): "null",
}


def take(node: Mapping[str, Any], key: str, kind: type, at: str, source: str) -> Any:
    """The value of a key, of the type it should have."""
    try:
        value = node[key]
    except KeyError:
        keys = ", ".join(map(repr, list(node)[:8])) or "nothing"
        raise errors.UserError(
            f"{source}: {at or 'the top level'} has no {key!r}, only {keys}; expected the layout "
            "of SQuAD"
        ) from None
    if type(value) is not kind:
        raise errors.UserError(
            f"{source}: {_join(at, key)} is {_KINDS[type(value)]}; expected {_KINDS[kind]}"
        )
    return value


def each(
    node: Mapping[str, Any], key: str, at: str, source: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the path and value of each object in the list of a key."""
    for index, item in enumerate(take(node, key, list, at, source)):
        path = f"{_join(at, key)}[{index}]"
        if not isinstance(item, dict):
            raise errors.UserError(f"{source}: {path} is {_KINDS[type(item)]}; expected an object")
        yield path, item


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def take_id(qa: Mapping[str, Any], at: str, source: str) -> str:
    # Some sets number their questions; as keys of the output files numbers become text anyway.
    if type(qa.get("id")) is int:
        return str(qa["id"])
    return take(qa, "id", str, at, source)
