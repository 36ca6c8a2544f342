"""Names from outside as choices of a menu.

Dash looks choices up in a plain object of JavaScript, by every part of their text and of their value. There
"__proto__" is the prototype of all objects. A choice would write into it, and every script of the page would fail.
"""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["choice_text", "choosable"]

PROTOTYPE: Final = re.compile("_(?=_proto__)", re.IGNORECASE)
WORD_JOINER: Final = "\N{WORD JOINER}"  # has no width


def choice_text(text: str) -> str:
    """Return a text that looks the same and that a menu can show and search safely."""
    return PROTOTYPE.sub(f"_{WORD_JOINER}", text)


def choosable(names: Iterable[str]) -> list[str]:
    """Return the names that can be the values of choices."""
    return [name for name in names if PROTOTYPE.search(name) is None]
