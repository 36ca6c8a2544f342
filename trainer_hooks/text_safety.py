"""Makes foreign texts safe for logs: those of the user's objects and errors, which may raise, and the collector's."""

from typing import Final

__all__ = ["LONGEST_TEXT_CHARS", "describe_error", "describe_object", "encodable", "placeholder", "printable"]

LONGEST_TEXT_CHARS: Final = 2_000  # of one log line, which may hold the representation of a user's object
OBJECT_CHARS: Final = 80


def describe_object(given: object) -> str:
    """Return the beginning of an object's representation; a class of the user's may raise instead of having one."""
    try:
        return repr(given)[:OBJECT_CHARS]
    except Exception:  # noqa: BLE001 - whatever it raises
        return placeholder(given)


def placeholder(given: object) -> str:
    """Return the text that stands for an object that cannot or must not be shown."""
    return f"a {type(given).__name__} that cannot be shown"


def describe_error(error: BaseException) -> str:
    """Return the text of an error; a class of the user's may raise instead of having one."""
    try:
        return str(error)[:LONGEST_TEXT_CHARS]
    except Exception:  # noqa: BLE001 - whatever it raises
        return "(its text cannot be read)"


def encodable(text: str) -> str:
    """Return a text with escapes for what UTF-8 cannot encode, such as half of a surrogate pair."""
    return text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """Return a text from the collector with escapes for characters that control a terminal or begin a log line."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
