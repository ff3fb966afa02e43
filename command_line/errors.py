"""What a user did wrong, as exceptions that end a script in one line.

A message says what was given, where (flag, or file:line), what was expected and how to cure it.
Everything that is not one of these is a bug in the toolkit and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable


class UserError(ValueError):
    """Wrong data or files: the script ends with exit status 1."""

    exit_status = 1


class FlagError(UserError):
    """Wrong flags, or flags that contradict each other: exit status 2."""

    exit_status = 2


def suggest(name: str, known: list[str]) -> str:
    """Returns ``; did you mean X?`` for the nearest known names, or an empty string."""
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def some(names: Iterable[object], count: int = 4) -> str:
    """The first of some names or ids, and how many more there are."""
    shown = list(map(str, names))
    more = f", and {len(shown) - count} more" if len(shown) > count else ""
    return ", ".join(shown[:count]) + more
