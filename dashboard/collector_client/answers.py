"""Makes JSON answers safe to show, and their numbers floats."""

import math
import re
from typing import Final

__all__ = ["find_original_texts", "printable_tree", "to_floats"]

NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Fields with text of a model, or of a person who may write several lines; their line ends and tabs are kept.
LONG_TEXTS: Final = frozenset({"text", "pieces", "notes", "note", "why"})
ESCAPE: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}|[nrt])")
LETTERS: Final = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}


def to_floats(value: object) -> object:
    """Replace the strings "NaN", "Infinity" and "-Infinity" by floats, except in long texts."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, list):
        return [to_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key in LONG_TEXTS else to_floats(item) for key, item in value.items()}
    return value


def printable_tree(value: object, *, kept: str = "") -> object:
    r"""Return a JSON value with escapes for the unprintable characters of its texts, including names of fields.

    So no text of an answer can reorder or hide text that is shown beside it. The collector has the same rule in
    `monitor_server.text_safety.printable`, which the dashboard must not import.

    Args:
        value: Any JSON value.
        kept: Characters that stay as they are; line ends and tabs in long texts.
    """
    if isinstance(value, str):
        return _printable(value, kept)
    if isinstance(value, list):
        return [item if isinstance(item, float | int) else printable_tree(item, kept=kept) for item in value]
    if isinstance(value, dict):
        return {
            _printable(key, ""): printable_tree(item, kept="\n\t" if key in LONG_TEXTS else kept)
            for key, item in value.items()
        }
    return value


def _printable(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character in kept or character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def find_original_texts(shown: str) -> list[str]:
    """Return the texts that `printable_tree` shows as this one, except texts that no address can hold."""
    meant = ESCAPE.sub(lambda found: LETTERS.get(found[0]) or chr(int(found[0].lstrip("\\xuU"), 16)), shown)
    is_held = not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in meant)
    return [shown, meant] if meant != shown and is_held else [shown]
