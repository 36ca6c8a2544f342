"""Describes what is wrong with a rule that a person writes, in our words and not in pydantic's."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from monitor_server.text_safety.printable import printable

__all__ = ["describe_problems"]

# The values of `condition`, by which pydantic tells the rules apart.
_TAGS = ("threshold", "change", "absence", "comparison")


def describe_problems(error: ValidationError, *, place: str = "") -> list[str]:
    """Return the problems, one sentence for each place, without characters that a terminal would execute."""
    return [_problem(each, place) for each in error.errors(include_url=False)]


def _problem(error: ErrorDetails, place: str) -> str:
    kind, context = error["type"], error.get("ctx", {})
    # Pydantic puts the tag of a union into the place. A field that is not known, the last part, may have that name too.
    field = len(error["loc"]) - 1 if kind == "extra_forbidden" else None
    parts = [part for number, part in enumerate(error["loc"]) if part not in _TAGS or number == field]
    location = place + "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in parts)
    location = printable(location.removeprefix("."), longest=200) or "the rule"
    if kind == "value_error":
        return f"{location}: {context['error']}"
    must = _demand(kind, context, error["msg"])
    if kind in ("missing", "extra_forbidden", "union_tag_not_found"):
        return f"{location} {must}"
    return f"{location} {must}{_given_text(context.get('tag', error['input']))}"


def _demand(kind: str, context: Mapping[str, Any], message: str) -> str:
    """Return the condition that must hold, as the part of a sentence after the place."""
    demands = {
        "missing": "must be set",
        "extra_forbidden": "is not known; remove it, or correct its name",
        "union_tag_not_found": "must have the condition threshold, change, absence or comparison",
        "union_tag_invalid": "must have the condition threshold, change, absence or comparison",
        "string_pattern_mismatch": "must not hold control characters",
        "model_attributes_type": "must be a table of fields",
        "literal_error": f"must be {context.get('expected')}",
    }
    begun = re.sub(r"^(Input should|String should|must) ", "", message)
    return demands.get(kind) or f"must {begun}"


def _given_text(given: Any) -> str:  # noqa: ANN401 - any value that a person writes
    if isinstance(given, int) and not -(2**64) < given < 2**64:
        return ", got a number of more than 19 digits"  # Python refuses to print very long numbers
    return f", got {printable(repr(given), longest=100)}" if isinstance(given, str | int | float | bool) else ""
