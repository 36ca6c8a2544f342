"""Pydantic constraints on fields that people write, with errors that name the forbidden character."""

import re
from typing import Any, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from monitor_server.text_safety.patterns import HIDDEN, LINES, NOT_IN_LINES, ONE_LINE, ONE_SHOWN_LINE
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = [
    "HIDDEN_CHARACTERS",
    "IN_LINES",
    "IN_ONE_LINE",
    "SHOWN_IN_ONE_LINE",
    "SHOWN_OR_BLANK",
    "find_hidden",
    "find_unclean",
    "refuse_many_fields",
]

MOST_FIELDS: Final = 64
HIDDEN_CHARACTERS: Final = "hidden_characters"
"""The type of the errors."""
_PLAIN: Final = (
    "must be one line of characters that can be seen: no line breaks, no control characters, no marks of direction"
)
_PLAIN_LINES: Final = "must have no control characters but line breaks, and no marks of direction"


def _matching(pattern: str, rule: str, *, hidden: str = HIDDEN) -> list[Any]:
    """Return the constraint that a field matches a pattern; the API's description shows it, and errors name the rule.

    Args:
        pattern: A regular expression for the whole text.
        rule: The condition that must hold, in words.
        hidden: The class of characters; the error names the first of them.
    """
    compiled, forbidden = re.compile(pattern), re.compile(f"[{hidden}]")

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise PydanticCustomError(HIDDEN_CHARACTERS, "{problem}", {"problem": rule + _place(text, forbidden)})
        return text

    return [Field(json_schema_extra={"pattern": pattern}), AfterValidator(check)]


def find_hidden(text: str) -> str:
    """Return the rule for one line and the place of its violation; empty if the text complies."""
    return "" if re.fullmatch(ONE_LINE, text) else _PLAIN + _place(text, re.compile(f"[{HIDDEN}]"))


def find_unclean(name: str) -> str:
    """Return the rule for names that trainers send, and the name that breaks it; empty if the name complies."""
    if wire.is_clean_name(name):
        return ""
    return f"must have no hidden characters and no blanks around it, got {printable(ascii(name), longest=100)}"


def refuse_many_fields(given: Any) -> Any:  # noqa: ANN401 - anything a client sends
    """Return a value, unless it is an object of more fields than any request has.

    Pydantic makes an error for each unknown field, which takes seconds for a body of a megabyte.
    """
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        words = f"must have at most {MOST_FIELDS} fields, got {len(given)}"
        raise PydanticCustomError("many_fields", "{words}", {"words": words})
    return given


def _place(text: str, forbidden: re.Pattern[str]) -> str:
    found = forbidden.search(text)
    if found is None:
        return ""
    line, place = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
    within = f"line {line}, character {place}" if "\n" in text else f"character {place}"
    return f", got U+{ord(found[0]):04X} at {within}"


IN_ONE_LINE: Final = _matching(ONE_LINE, _PLAIN)
SHOWN_IN_ONE_LINE: Final = _matching(ONE_SHOWN_LINE, _PLAIN)
SHOWN_OR_BLANK: Final = _matching(rf"^\s*$|{ONE_SHOWN_LINE}", _PLAIN)
IN_LINES: Final = _matching(LINES, _PLAIN_LINES, hidden=NOT_IN_LINES)
