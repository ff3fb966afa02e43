"""What a user did wrong, as exceptions that end a script in one line.

A message says what was given, where (flag, or file:line), what was expected and how to cure it.
Everything that is not one of these is a bug in the toolkit and keeps its traceback.
"""

import re
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong data or files: the script ends with exit status 1."""

    exit_status = 1


class FlagError(UserError):
    """Wrong flags, or flags that contradict each other: exit status 2."""

    exit_status = 2


class Stopped(Exception):
    """A signal has ended the work, which is saved: the script ends with exit status 128 + signal.

    Args:
      signal_number: such as 15 for SIGTERM.
    """

    def __init__(self, signal_number: int):
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_status = 128 + signal_number


def suggest(name: str, known: list[str]) -> str:
    """Returns ``; did you mean X?`` for the nearest known names, or an empty string."""
    import difflib  # not at the top: only a mistake needs it

    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def some(names: Iterable[object], count: int = 4) -> str:
    """The first of some names or ids, and how many more there are."""
    listed = list(map(str, names))
    more = f", and {len(listed) - count} more" if len(listed) > count else ""
    return ", ".join(listed[:count]) + more


def reason(error: BaseException) -> str:
    """An error's text in one line, without TensorFlow's mention of ops and devices."""
    text = str(getattr(error, "message", "") or error)
    text = re.sub(r"\{\{.*?\}\}|\[Op:\w+\]|\bname:\s*$", "", text)
    text = text.split(": perhaps your file is in a different file format")[0]
    return " ".join(text.split())
