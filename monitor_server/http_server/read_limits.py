"""Limits how many requests read from the store at once or wait to do so.

It lets one dry run in at a time, and a few exports and incident reports, which take turns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import anyio.to_thread

from monitor_server.errors import Unavailable

__all__ = [
    "MAX_EXPORTS",
    "MAX_READS",
    "MAX_READS_OF_ONE",
    "MAX_REPORTS",
    "MAX_REPORTS_OF_ONE",
    "Admission",
    "Turns",
    "dry_runs",
    "exports",
    "incident_reports",
    "waiting_reads",
]

_Part = TypeVar("_Part")

# Four of them read at a time (`dependencies.READS`) and a read takes about 10 to 100 ms: the last waits a few seconds.
MAX_READS = 128
# A key that reads on many connections leaves half of them to the others.
MAX_READS_OF_ONE = 64
# A Parquet file holds some 40 MB until its reader has taken the part that was written last.
MAX_EXPORTS = 8
# A key whose reader is slow leaves turns for the others.
MAX_EXPORTS_OF_ONE = 3
# A report with long responses takes half a second. If they waited among other reads, those would wait for all of them.
MAX_REPORTS = 8
MAX_REPORTS_OF_ONE = 3


@dataclass(slots=True)
class Admission:
    """Admits a limited number of requests at a time; used on the event loop only.

    Attributes:
        most: The largest number of requests at a time.
        refusal: The message for a request that exceeds it.
        most_of_one: The largest number of requests of one caller at a time.
    """

    most: int
    refusal: str
    most_of_one: int
    _callers: list[str | None] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of admitted requests."""
        return len(self._callers)

    @contextmanager
    def admit(self, caller: str | None = None) -> Iterator[None]:
        """Count a request until the block ends.

        Args:
            caller: The key of the request; None if nobody needs one.

        Raises:
            Unavailable: If the largest number of requests, or of those of this caller, is admitted already.
        """
        if self.count >= self.most:
            raise Unavailable(self.refusal)
        if caller is not None and self._callers.count(caller) >= self.most_of_one:
            raise Unavailable(f"{self.most_of_one} requests of this kind are under way with this key; send again later")
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)


def waiting_reads() -> Admission:
    """Return the limit of the requests that read from the store or wait to do so."""
    refusal = f"{MAX_READS} requests wait to read from the store; send again later"
    return Admission(MAX_READS, refusal, MAX_READS_OF_ONE)


def dry_runs() -> Admission:
    """Return the limit of the dry runs of rules."""
    return Admission(1, "another dry run is under way, and a collector does one at a time; send it again later", 1)


@dataclass(slots=True)
class Turns(Admission):
    """Requests whose work takes long: exports, or incident reports.

    One part of one of them is done at a time, in a thread apart from those of other requests. A part takes up to a
    second, and several at a time would end no sooner, because they share Python's lock.
    """

    _turn: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def take_turn(self, work: Callable[[], _Part]) -> _Part:
        """Do the next part of a request when it is its turn, and return the result of ``work``."""
        return await anyio.to_thread.run_sync(work, limiter=self._turn)


def exports() -> Turns:
    """Return the limit of the exports that are running."""
    refusal = f"{MAX_EXPORTS} exports are under way, the most at once; send it again later"
    return Turns(MAX_EXPORTS, refusal, MAX_EXPORTS_OF_ONE)


def incident_reports() -> Turns:
    """Return the limit of the incident reports that are made or wait to be made."""
    refusal = f"{MAX_REPORTS} incident reports are being made, the most at once; send it again later"
    return Turns(MAX_REPORTS, refusal, MAX_REPORTS_OF_ONE)
