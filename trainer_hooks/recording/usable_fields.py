"""Leaves out of a record what the collector would refuse the whole record for: a name or a version that is unusable.

A step is worth more than one of its names. The rules are those of the wire.
"""

from collections.abc import Container, Mapping
from typing import Final, SupportsInt

from trainer_hooks.delivery import DropCounter
from trainer_hooks.wire import LARGEST_INTEGER, is_clean_name

__all__ = ["UsableFields"]

# A trainer sends the same names at each step; one that makes up names for ever fills no memory.
MAX_VALID_NAMES: Final = 8_192
SHOWN_CHARS: Final = 80


class UsableFields:
    """Reads the names and the versions of records.

    Args:
        drops: Counts scalars that are left out, and warns of versions that are.
    """

    def __init__(self, drops: DropCounter) -> None:
        self._drops = drops
        self._valid: set[object] = set()

    def scalars(self, numbers: Mapping[str, float], *, but: Container[str]) -> dict[str, float]:
        """Return the numbers with usable names, apart from some that are sent otherwise."""
        valid, scalars = self._valid, {}
        for name, value in numbers.items():
            if name in but:
                continue
            if name in valid or self._is_valid(name):
                scalars[str(name)] = value
        return scalars

    def data_version(self, given: object) -> str | None:
        """Return a name of the data that can be sent, or None."""
        text = None if given is None else str(given)
        if text is not None and not text.isprintable():
            self._drops.warn("data_version", f"data_version must have printable characters, got {_shown(text)}")
            return None
        return text

    def policy_version(self, given: SupportsInt | None) -> int | None:
        """Return a number of updates that can be sent, or None."""
        if given is None:
            return None
        try:
            number = int(given)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if not 0 <= number <= LARGEST_INTEGER:
            self._drops.warn("policy_version", f"policy_version must lie in 0 to 2**53, got {_shown(given)}")
            return None
        return number

    def _is_valid(self, name: object) -> bool:
        text = str(name)
        if not is_clean_name(text):
            self._drops.count(
                "scalars",
                f"a scalar's name must have printable characters and no blanks around them, got {_shown(text)}",
            )
            return False
        if len(self._valid) >= MAX_VALID_NAMES:
            self._valid.clear()
        self._valid.add(name)
        return True


def _shown(given: object) -> str:
    return repr(given)[:SHOWN_CHARS]
