"""The steps of a run that are not complete yet, in order, while a slice of its log is projected.

There may be tens of thousands. Only the first few are read, and what a slice adds is written at its end, so that a
slice costs what it completes and not what waits.
"""

import heapq
from collections.abc import Iterable

from monitor_server.projection.rank_merging import StepRecords
from monitor_server.projection.run_context import Key, RunContext
from monitor_server.store.repositories.records import StoredRecord
from trainer_hooks import wire

__all__ = ["WaitingSteps"]

FIRST_STEPS = 64
# Records that are read ahead for waiting steps; a record is up to some 30 KB.
RECORDS_READ_AHEAD = 64


class WaitingSteps:
    """Incomplete steps by attempt and step, the first at hand."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._order: list[Key] = []
        self._since: dict[Key, float] = {}
        self._records: dict[Key, StepRecords] = {}
        self._stored: set[Key] = set()  # in the table and here
        self._removed: set[Key] = set()
        self._is_all_read = False

    def add(self, records: Iterable[StoredRecord], *, now: float) -> set[Key]:
        """Add records of the log, and return the steps among them that are complete already."""
        by_step: dict[Key, list[StoredRecord]] = {}
        for record in records:
            by_step.setdefault((record.attempt, record.step), []).append(record)
        late = self._find_complete(by_step.keys() - self._since.keys())
        unknown = by_step.keys() - self._since.keys() - late
        in_table = set() if self._is_all_read else self._context.repositories.waiting.among(self._run_id, unknown)
        for key in unknown - in_table:
            self._put(key, now)
            self._records[key] = StepRecords()
        for key, new in by_step.items():
            assembled = self._records.get(key)
            if assembled is not None and key not in late:
                for record in new:
                    assembled.add(record.rank, record.seq, wire.decode_record(record.body))
        return late

    def first(self) -> tuple[Key, float] | None:
        """Return the first step and since when it waits, or None where no step waits."""
        if not self._is_all_read and not self._stored:
            self._read_more()
        if not self._order:
            return None
        key = self._order[0]
        return key, self._since[key]

    def records(self, key: Key) -> StepRecords:
        """Return the records of the first step."""
        if key not in self._records:
            self._read_records(key)
        return self._records[key]

    def remove_first(self) -> None:
        """Remove the first step: it is complete."""
        key = heapq.heappop(self._order)
        del self._since[key]
        self._records.pop(key, None)
        if key in self._stored:
            self._stored.remove(key)
            self._removed.add(key)

    def save(self) -> None:
        """Write what was added and removed."""
        waiting = self._context.repositories.waiting
        waiting.remove(self._run_id, self._removed)
        self._removed.clear()
        new = self._since.keys() - self._stored
        waiting.add(self._run_id, new, now=self._context.now)
        self._stored |= new

    @property
    def _run_id(self) -> str:
        return self._context.run.id

    def _find_complete(self, keys: Iterable[Key]) -> set[Key]:
        by_attempt: dict[int, list[int]] = {}
        for attempt, step in keys:
            by_attempt.setdefault(attempt, []).append(step)
        known = self._context.repositories.steps.known
        return {
            (attempt, step) for attempt, steps in by_attempt.items() for step in known(self._run_id, attempt, steps)
        }

    def _put(self, key: Key, since: float) -> None:
        self._since[key] = since
        heapq.heappush(self._order, key)

    def _read_more(self) -> None:
        waiting = self._context.repositories.waiting
        waiting.remove(self._run_id, self._removed)
        self._removed.clear()
        first = waiting.first(self._run_id, limit=FIRST_STEPS)
        self._is_all_read = len(first) < FIRST_STEPS
        for key, since in first.items():
            self._stored.add(key)
            self._put(key, since)

    def _read_records(self, key: Key) -> None:
        """Read the records of a step, and of some that follow it in its attempt, as far as they are projected."""
        attempt = key[0]
        count = max(1, RECORDS_READ_AHEAD // self._context.world_size(attempt))
        ahead = heapq.nsmallest(count, (other for other in self._stored if other[0] == attempt and other >= key))
        wanted = [step for _, step in ahead if (attempt, step) not in self._records]
        found = self._context.repositories.records.of_steps(
            self._run_id, attempt, wanted, up_to=self._context.run.position
        )
        for step in wanted:
            self._records[attempt, step] = StepRecords.decode(found.get(step, ()))
