"""Leaves out unusable names and versions, because the collector would refuse the whole record for one of them.

The rules are those of the wire schema.
"""

from collections.abc import Collection, Mapping
from typing import Final, SupportsInt

from trainer_hooks.delivery import DropCounter
from trainer_hooks.signals import NAMES
from trainer_hooks.text_safety import describe_object
from trainer_hooks.wire import LARGEST_INTEGER, LONGEST_NAME_CHARS, MAX_RECORD_SIGNALS, is_clean_name

__all__ = ["READ_SIGNALS", "UsableFields"]

# A trainer sends the same names at each step. The limit bounds the memory for a trainer that sends ever new names.
MAX_VALID_NAMES: Final = 8_192
# What detectors read, which names beyond the limit of a record must not displace.
READ_SIGNALS: Final = frozenset(NAMES) | {
    "entropy/paired_delta",
    "grad/norm",
    "instrument/entropy_abs",
    "instrument/logprob_abs",
    "instrument/mask_frac",
    "loss/llds",
    "loss/policy",
    "lr",
    "mismatch/ratio",
    "moe/load_entropy",
    "qk/spectral_entropy",
}


class UsableFields:
    """Reads the names and the versions of records.

    Args:
        drops: Counts scalars that are left out, and warns of versions that are left out.
    """

    def __init__(self, drops: DropCounter) -> None:
        self._drops = drops
        self._valid: dict[object, str] = {}

    def scalars(self, numbers: Mapping[str, float], *, but: Collection[str]) -> dict[str, float]:
        """Return the numbers with usable names, without the names ``but``, which are sent as summaries."""
        valid = self._valid
        scalars: dict[str, float] = {}
        room = MAX_RECORD_SIGNALS - len(but)
        names = numbers if len(numbers) <= room else sorted(numbers, key=lambda name: name not in READ_SIGNALS)
        for name in names:
            value = numbers[name]
            if name in but:
                continue
            text = valid.get(name) or self._read(name)
            if text is None or (text is not name and text in but):
                continue
            if len(scalars) >= room:
                self._drops.count(
                    "scalars",
                    f"a step must have at most {MAX_RECORD_SIGNALS} signals, and those beyond are left out, such as "
                    f"{describe_object(text)}; log fewer names",
                    once="signals",
                )
                continue
            scalars[text] = value
        return scalars

    def data_version(self, given: object) -> str | None:
        """Return a name of the data that can be sent, or None."""
        if given is None:
            return None
        text = _text(given)
        if text is None or len(text) > LONGEST_NAME_CHARS or not text.isprintable():
            self._drops.warn(
                "data_version",
                f"data_version must have at most {LONGEST_NAME_CHARS} printable characters, "
                f"got {describe_object(given)}; it is left out",
                once=True,
            )
            return None
        return text

    def policy_version(self, given: SupportsInt | None) -> int | None:
        """Return a number of updates that can be sent, or None."""
        if given is None:
            return None
        try:
            number = int(given)
        except Exception:  # noqa: BLE001 - an object of the user's may raise anything
            number = -1
        if not 0 <= number <= LARGEST_INTEGER:
            self._drops.warn(
                "policy_version",
                f"policy_version must lie in 0 to 2**53, got {describe_object(given)}; it is left out",
                once=True,
            )
            return None
        return number

    def _read(self, name: object) -> str | None:
        text = _text(name)
        if text is None or len(text) > LONGEST_NAME_CHARS or not is_clean_name(text):
            self._drops.count(
                "scalars",
                f"a scalar's name must have 1 to {LONGEST_NAME_CHARS} printable characters and no blanks around them, "
                f"got {describe_object(name)}; it is left out, and hooks/rejected_scalars counts it",
                once="names",
            )
            return None
        if len(self._valid) >= MAX_VALID_NAMES:
            self._valid.clear()
        self._valid[name] = text
        return text


def _text(given: object) -> str | None:
    """Return an object as text, or None where it has none."""
    try:
        return str(given)
    except Exception:  # noqa: BLE001 - an object of the user's may raise anything
        return None
