"""Changes one value inside a body, so that the body stays one message of msgpack or JSON.

msgspec decodes in C, where atheris sees no coverage: bytes changed at random seldom leave a message that is decoded.
"""

import json
import random
from typing import Any

import msgspec

__all__ = ["mutated"]

NUMBERS = (0, -1, 1, 2, 255, 2**31, 2**53, 2**53 + 2, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 2**80)
FLOATS = (0.5, -0.0, 5e-324, 1e-300, 1e154, 1e308, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", " ", "a", "\0", "\ud800", "é" * 9, "x" * 17, "NaN", "-Infinity", "self", "mean", "std", "ess_frac", "sum")
TYPES = ("moments", "extreme", "histogram", "exp", "int32", "int64", "float16", "float64", "bool", "uint8", "stopped")
OTHERS: tuple[Any, ...] = (None, True, False, b"", b"\0" * 8, b"\xff" * 8, [], {}, [[]], {"a": 1})
JSON_FLAG = 1


def mutated(data: bytes, seed: int) -> bytes | None:
    """Return an input of `decoder.check_body` with one value changed; None if its body is no message, or compressed."""
    numbers = random.Random(seed)  # noqa: S311 - inputs to try, no secrets
    is_json = bool(data) and data[0] & JSON_FLAG
    try:
        tree = json.loads(data[1:]) if is_json else msgspec.msgpack.decode(data[1:])
        changed = _change(tree, numbers)
        body = json.dumps(changed).encode() if is_json else msgspec.msgpack.encode(changed)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return data[:1] + body


def _change(tree: Any, numbers: random.Random) -> Any:
    places = list(_places(tree))
    if not places:
        return tree
    holder, key = numbers.choice(places)
    turn = numbers.random()
    if turn < 0.1:
        del holder[key]
    elif turn < 0.2 and isinstance(holder, list):
        holder.append(holder[key])
    elif turn < 0.3 and isinstance(holder, dict):
        holder[numbers.choice(TEXTS)] = holder.pop(key)
    elif turn < 0.4:
        other, other_key = numbers.choice(places)
        if not isinstance(other[other_key], dict | list):
            holder[key] = other[other_key]
    else:
        holder[key] = numbers.choice(numbers.choice((NUMBERS, FLOATS, TEXTS, TYPES, OTHERS)))
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found, waiting = [], [tree]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            for key in holder if isinstance(holder, dict) else range(len(holder)):
                found.append((holder, key))
                waiting.append(holder[key])
    return found
