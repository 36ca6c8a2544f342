"""The JSON text of logs, in which a number may have any length."""

import json
from typing import Any

__all__ = ["DECODER", "read_json"]


def _whole_number(text: str) -> int | float:
    """Return an integer; one with more digits than Python converts is infinite, as it would be in every signal."""
    try:
        return int(text)
    except ValueError:
        return float(text)


DECODER = json.JSONDecoder(parse_int=_whole_number)


def read_json(text: str | bytes) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value of a JSON document.

    Raises:
        ValueError: If it is no JSON.
        RecursionError: If it is nested too deeply.

    >>> read_json(b'{"reward": 1' + b"0" * 5000 + b"}")
    {'reward': inf}
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return DECODER.decode(text)
