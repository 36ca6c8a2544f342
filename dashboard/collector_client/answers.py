"""Makes JSON answers safe to show, and their numbers floats."""

import math
import re
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["find_original_texts", "is_addressable", "printable_tree", "read_as"]

Kind = TypeVar("Kind")

NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Fields with text of a model, or of a person who may write several lines, and what is kept in them: line ends and tabs.
# Notes also keep the signs of places where a line may end, because a form would save their escapes.
LONG_TEXTS: Final = dict.fromkeys(("text", "pieces", "note", "why"), "\n\t") | {"notes": "\n\t\u00ad\u200b"}
# Emoji, and the letters of Arabic, the scripts of India, Myanmar, Khmer and Mongolian: a browser draws them joined.
JOINED: Final = (
    "\u0600-\u0dff\u1000-\u109f\u1780-\u18af\u2600-\u27bf\u2b00-\u2bff"
    "\ufb50-\ufdff\ufe0f\ufe70-\ufefc\U0001f000-\U0001faff"
)
# Elsewhere a joiner would make a name look like another one, and a token look empty.
JOINER: Final = re.compile(f"(?<=[{JOINED}])[\u200c\u200d]|[\u200c\u200d](?=[{JOINED}])")
ESCAPE: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}|[nrt])")
LETTERS: Final = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}


def read_as(kind: type[Kind], answer: object) -> Kind:
    """Return an answer as a type, with the strings "NaN", "Infinity" and "-Infinity" as floats where it has numbers.

    A run or a project may have one of these names, so the texts of an answer stay as they are. In a part that
    may be anything, such as the evidence of an alert, all strings are read as numbers, except in long texts.

    Args:
        kind: A type of `dashboard.collector_client.types`, or a list of one.
        answer: JSON values. The shape is not checked: a part of another shape is returned as it is.
    """
    read = _reader(cast("Hashable", kind))
    return cast("Kind", answer if read is None else read(answer))


@cache
def _reader(kind: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401 - a type, or a description of one
    """Return what reads the numbers of a value of a type; None if such a value has none."""
    if kind in (float, object):
        return _read_number if kind is float else _read_anything
    if is_typeddict(kind):
        return _reader_of_fields(get_type_hints(kind))
    read = next((read for argument in get_args(kind) if (read := _reader(argument)) is not None), None)
    if read is None or read is _read_anything:  # it reads lists and objects as well
        return read
    origin = get_origin(kind)
    if origin is list:
        return lambda value: [read(item) for item in value] if isinstance(value, list) else value
    if origin is dict:
        return lambda value: {key: read(item) for key, item in value.items()} if isinstance(value, dict) else value
    return read  # of a type or None


def _reader_of_fields(kinds: dict[str, Any]) -> Callable[[Any], Any] | None:
    readers = {name: read for name, kind in kinds.items() if (read := _reader(kind)) is not None}
    if not readers:
        return None

    def read_fields(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, dict):
            return value
        return value | {name: read(value[name]) for name, read in readers.items() if name in value}

    return read_fields


def _read_number(value: object) -> object:
    return NON_FINITE.get(value, value) if isinstance(value, str) else value


def _read_anything(value: object) -> object:
    if isinstance(value, list):
        return [_read_anything(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key in LONG_TEXTS else _read_anything(item) for key, item in value.items()}
    return _read_number(value)


def printable_tree(value: object, *, kept: str = "") -> object:
    r"""Return a JSON value with escapes for the unprintable characters of its texts, including names of fields.

    So no text of an answer can reorder or hide text that is shown beside it. The collector has the same rule in
    `monitor_server.text_safety.printable`, which the dashboard must not import; a terminal joins nothing.

    Args:
        value: Any JSON value.
        kept: Characters that stay as they are.
    """
    if isinstance(value, str):
        return _printable(value, kept)
    if isinstance(value, list):
        return [item if isinstance(item, float | int) else printable_tree(item, kept=kept) for item in value]
    if isinstance(value, dict):
        return {
            _printable(key, ""): printable_tree(item, kept=LONG_TEXTS.get(key, kept)) for key, item in value.items()
        }
    return value


def _printable(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    joiners = {found.start() for found in JOINER.finditer(text)}
    return "".join(
        character
        if character.isprintable() or character in kept or place in joiners
        else character.encode("unicode_escape").decode()
        for place, character in enumerate(text)
    )


def is_addressable(text: str) -> bool:
    """Return whether an address can hold a text: it has no NUL and no half of a surrogate pair."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)


def find_original_texts(shown: str) -> list[str]:
    """Return the texts that `printable_tree` shows as this one, except texts that no address can hold."""
    meant = ESCAPE.sub(lambda found: LETTERS.get(found[0]) or chr(int(found[0].lstrip("\\xuU"), 16)), shown)
    return [shown, meant] if meant != shown and is_addressable(meant) else [shown]
