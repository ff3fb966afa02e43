"""JSON files that a program wrote for itself or for the next run."""

import json
from typing import Any

from command_line import errors
from system import inputs


def read_object(path: str, cure: str = "") -> dict[str, Any] | None:
    """Reads a file that holds one JSON object in UTF-8, with or without a byte order mark.

    Args:
      path: a local path, or one with ``://``.
      cure: what to do about a damaged file, for the message.

    Returns:
      The object, or None where there is no such file.

    Raises:
      errors.UserError: the file is damaged.
    """
    if not inputs.is_file(path):
        return None
    data = inputs.read_bytes(path)
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = f"expected JSON: {error}"
    else:
        if isinstance(value, dict):
            return value
        reason = f"expected a JSON object, found {json.dumps(value)[:40]}"
    raise errors.UserError(f"{path}: damaged, {reason}{cure and '; '}{cure}")
