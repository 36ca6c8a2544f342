"""Chooses the new signals that a run takes, and leaves the other ones out of their records.

A record must not be lost because of its signal names. A badly chosen name, such as one that contains the number of the
step, must not cost the run the numbers that detectors read.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from monitor_server.ingest.validation.records import ValidRecord
from trainer_hooks import wire

__all__ = ["LeftOutCounter", "SignalLimit", "without"]

# The SDK's signals about itself report losses of data. The SDK has about twenty of them.
OWN_PREFIX: Final = "hooks/"
OWN_PLACES: Final = 32


class SignalLimit:
    """The signals of one run, and the number of further ones that it may have.

    Signals that detectors read are always taken, and so are the first 32 of the SDK's own signals. Neither group counts
    towards the limit, so no other name can displace them.

    Args:
        names: The signals that the run has.
        most: How many other signals it may have.
        first: The signals that are always taken.

    Attributes:
        names: The given signals, with those that were added.
    """

    def __init__(self, names: Iterable[str], *, most: int, first: frozenset[str]) -> None:
        self.names = set(names)
        self._first = first
        own = sum(name.startswith(OWN_PREFIX) for name in self.names - first)
        self._own_free = max(0, OWN_PLACES - own)
        others = len(self.names) - len(self.names & first) - min(own, OWN_PLACES)
        self._free = most - others

    @property
    def is_full(self) -> bool:
        """Whether the run takes no more signals of any name."""
        return self._free <= 0

    def takes_none_of(self, names: Collection[str]) -> bool:
        """Whether the run has no place for any of the new names."""
        if not self.is_full or not self._first.isdisjoint(names):
            return False
        return not (self._own_free and any(name.startswith(OWN_PREFIX) for name in names))

    def add(self, names: Iterable[str]) -> list[str]:
        """Add the new names for which there are places, in the given order, and return them."""
        taken = [name for name in names if self._take(name)]
        self.names.update(taken)
        return taken

    def _take(self, name: str) -> bool:
        if name in self._first:
            return True
        if self._own_free > 0 and name.startswith(OWN_PREFIX):
            self._own_free -= 1
            return True
        if not self.is_full:
            self._free -= 1
            return True
        return False


class LeftOutCounter:
    """Counts the signals that are left out of the records of one batch, and builds the advice for the user.

    Args:
        most: The limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._example = ""

    def add(self, names: Sequence[str]) -> None:
        """Count the names that one record lost."""
        self._example = self._example or names[0]
        self._count += len(names)

    @property
    def result(self) -> wire.LeftOut | None:
        """The part of the receipt about signals that were left out; None if there are none."""
        if not self._count:
            return None
        detail = (
            f"a run may have {self._most} signals beside those that detectors read, and new ones such as "
            f"{self._example!r} are left out; give a signal one name for all steps, send fewer, or raise "
            "RLVITALS_MAX_SIGNALS"
        )
        return wire.LeftOut(signals=self._count, detail=detail)


def without(record: ValidRecord, names: Collection[str]) -> ValidRecord:
    """Return a record without some of its signals."""
    whole = wire.decode_record(record.body)
    scalars = {name: number for name, number in whole.scalars.items() if name not in names}
    summaries = {name: summary for name, summary in whole.summaries.items() if name not in names}
    return msgspec.structs.replace(
        record,
        body=wire.encode(msgspec.structs.replace(whole, scalars=scalars, summaries=summaries)),
        names=(*scalars, *summaries),
        shapes={name: shape for name, shape in record.shapes.items() if name not in names},
    )
