"""Describes the settings that differ between the configuration of an attempt and the one before."""

import json
from collections.abc import Iterator
from typing import Final

from monitor_server.text_safety.printable import printable
from trainer_hooks.wire import HIDDEN, hide_secrets

__all__ = ["describe_changes"]

MOST_NAMED: Final = 8
LONGEST_VALUE: Final = 40


def describe_changes(before: bytes, after: bytes) -> str:
    """Return the settings that differ between two configurations, the first eight by name; empty if they are equal.

    Settings inside others are named by their path with dots. NaN equals NaN. The values of secrets are not spelled: an
    earlier version may have stored them, and a trainer hides more of them than are recognised here.

    Args:
        before: The earlier configuration as it was stored, a JSON object. If it is damaged, the text says so.
        after: The later configuration, a JSON object.

    >>> describe_changes(b'{"lr": 1e-6, "kl": {"beta": 0.04}}', b'{"lr": 5e-7, "kl": {"beta": 0.04}, "clip": 0.2}')
    'clip added as 0.2, lr from 1e-06 to 5e-07'
    """
    try:
        old = dict(_flat(hide_secrets(json.loads(before))))
    except (ValueError, RecursionError):
        return "the one before cannot be read"
    new = dict(_flat(hide_secrets(json.loads(after))))
    hidden = tuple(name for name, value in new.items() if HIDDEN in value)
    differing = [name for name in sorted(old.keys() | new.keys()) if old.get(name, "") != new.get(name, "")]
    named = [_spell(name, old.get(name), new.get(name), hidden) for name in differing[:MOST_NAMED]]
    more = len(differing) - len(named)
    return ", ".join([*named, *([f"and {more} more"] if more else [])])


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the JSON text of each setting; a list is one setting."""
    if isinstance(value, dict) and (value or not path):
        for name, held in value.items():
            yield from _flat(held, f"{path}.{name}" if path else str(name))
    else:
        yield path, json.dumps(value)


def _spell(name: str, old: str | None, new: str | None, hidden: tuple[str, ...]) -> str:
    if any(f"{name}.".startswith(f"{path}.") for path in hidden):
        return f"{_short(name)} hidden"
    name = _short(name)
    if old is None:
        return f"{name} added as {_short(new or '')}"
    if new is None:
        return f"{name} removed, was {_short(old)}"
    return f"{name} from {_short(old)} to {_short(new)}"


def _short(text: str) -> str:
    # The name of a setting may be any text of JSON, and PostgreSQL stores no NUL.
    return printable(text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…")
