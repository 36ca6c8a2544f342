"""Reads stored JSON, which an earlier version may have checked less strictly, in a form that can always be shown."""

import json
import re
from typing import Any

__all__ = ["read_object", "showable"]

# Readers serialise recursively and fail at about 250 levels.
MAX_DEPTH = 100
CUT = "…"
SURROGATES = re.compile("[\ud800-\udfff]")
UNREADABLE_CHARS = 200


def read_object(stored: bytes) -> dict[str, Any]:
    """Return a stored JSON object; an unreadable one becomes ``{"unreadable": its beginning}``."""
    try:
        tree = json.loads(stored)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        return {"unreadable": stored[:UNREADABLE_CHARS].decode(errors="replace")}
    return {_text(key): showable(value, depth=1) for key, value in tree.items()}


def showable(value: Any, *, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON tree
    """Return a JSON tree with U+FFFD in place of lone surrogates, and an ellipsis in place of too deep parts."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return CUT
    if isinstance(value, dict):
        return {_text(key): showable(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [showable(item, depth=depth + 1) for item in value]
    return value


def _text(text: str) -> str:
    return SURROGATES.sub("\ufffd", text)
