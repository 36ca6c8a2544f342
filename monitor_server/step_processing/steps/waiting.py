"""The steps of a run that are not complete yet, in order.

They are kept in memory between the slices of a run, as long as no other projector takes it. The store may have tens of
thousands of them. Only the first few are read, and a slice writes its additions at its end, so the cost of a slice
depends on the steps that it completes and not on those that wait. The ranks that have reported a step, and its records,
are kept as they arrive, and read again only if they were too many to keep.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from monitor_server.step_processing.run_context import Key, RunContext
from monitor_server.step_processing.steps.rank_merging import StepRecords
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.log.blocks import StoredRecord
from monitor_server.store.repositories.log.step_records import StepBounds

__all__ = ["WaitingCache", "WaitingSteps"]

FIRST_STEPS = 64
# Records that are read ahead for waiting steps; a record has up to about 30 KB.
RECORDS_READ_AHEAD = 64
# The limit for one run between two slices. Further records are read again when their step is complete.
MAX_KEPT_BYTES = 8 * 1024 * 1024
MAX_KEPT_STEPS = 4_096
BYTES_A_RANK = 64  # in a set of numbers
# The limit for all runs together. The runs that were projected longest ago are dropped first.
MAX_CACHED_BYTES = 64 * 1024 * 1024
MAX_CACHED_RUNS = 512


class WaitingSteps:
    """The incomplete steps of one run by attempt and step; the first ones are in memory.

    Every step of the table up to the last one that was read is in memory, or was removed; some later ones may be.
    """

    def __init__(self, context: RunContext, bounds: StepBounds) -> None:
        self.body_bytes = 0
        self._bounds = bounds
        self._context = context
        self._count = 0  # with the steps of the table that are not in memory, once the first ones are read
        self._order: list[Key] = []
        self._since: dict[Key, float] = {}
        self._ranks: dict[Key, set[int]] = {}
        self._records: dict[Key, StepRecords] = {}
        self._stored: set[Key] = set()  # steps that are in the table and in memory
        self._removed: set[Key] = set()
        self._rank_bytes = 0  # at the end of the last slice
        self._read_to: Key = (-1, -1)
        self._is_all_read = False
        self._complete: set[Key] = set()  # of the steps that were looked up
        self._thinned: set[Key] = set()  # of the steps that were looked up
        self._in_table: set[Key] = set()

    def __len__(self) -> int:
        return self._count

    @property
    def kept_bytes(self) -> int:
        """The bytes that are kept between two slices: of records, and of the ranks that have reported."""
        return self.body_bytes + self._rank_bytes

    def begin(self, context: RunContext) -> None:
        """Begin a slice on another snapshot."""
        self._context = context

    def look_up(self, records: Iterable[StoredRecord]) -> None:
        """Find out which steps of records to be added are complete, wait in the table, or were thinned."""
        keys = {(record.attempt, record.step) for record in records} - self._since.keys() - self._complete
        self._complete |= self._find_complete(keys)
        unknown = keys - self._complete
        self._in_table = set() if self._is_all_read else self._context.repositories.waiting.among(self._run_id, unknown)
        self._thinned = self._find_thinned(unknown - self._in_table)

    def find_late(self, records: Sequence[StoredRecord]) -> dict[Key, list[int]]:
        """Return the positions of the records whose steps are complete already."""
        late: dict[Key, list[int]] = {}
        for record in records:
            key = (record.attempt, record.step)
            if key in self._complete:
                late.setdefault(key, []).append(record.position)
        return late

    def add(self, records: Sequence[StoredRecord], *, now: float) -> None:
        """Add records of the log; those whose steps are complete already are left out."""
        for record in records:
            key = (record.attempt, record.step)
            if key in self._complete:
                continue
            if key not in self._since:
                if key in self._in_table and key > self._read_to:
                    continue  # it is read from the table later, in order
                self._put(key, now)
                self._count += 1
                if key not in self._thinned:  # the log has earlier records of a thinned step, which are read as well
                    self._ranks[key] = set()
                    self._records[key] = StepRecords(self._bounds)
            ranks = self._ranks.get(key)
            if ranks is not None:
                ranks.add(record.rank)
            assembled = self._records.get(key)
            if assembled is not None:
                self.body_bytes -= assembled.body_bytes
                assembled.add(record)
                self.body_bytes += assembled.body_bytes

    def first(self) -> tuple[Key, float] | None:
        """Return the first step and the time since which it waits, or None if no step waits."""
        while not self._is_all_read and (not self._order or self._order[0] > self._read_to):
            self._read_more()
        if not self._order:
            return None
        key = self._order[0]
        return key, self._since[key]

    def ranks(self, key: Key) -> int:
        """Return the number of ranks that have reported a step."""
        ranks = self._ranks.get(key)
        if ranks is None:
            attempt, step = key
            ranks = self._ranks[key] = self._context.repositories.records.ranks(
                self._run_id, attempt, step, up_to=self._context.run.position
            )
        return len(ranks)

    def records(self, key: Key) -> StepRecords:
        """Return the records of the first step."""
        if key not in self._records:
            self._read_records(key)
        return self._records[key]

    def remove_first(self) -> None:
        """Remove the first step: it is complete."""
        key = heapq.heappop(self._order)
        del self._since[key]
        self._count -= 1
        self._ranks.pop(key, None)
        self._forget_records(key)
        self._complete.add(key)
        if key in self._stored:
            self._stored.remove(key)
            self._removed.add(key)

    def save(self, repositories: Repositories) -> None:
        """Write the steps that were added and removed."""
        waiting = repositories.waiting
        waiting.remove(self._run_id, self._removed)
        new = self._since.keys() - self._stored
        waiting.add(self._run_id, {key: self._since[key] for key in new})

    def end(self) -> bool:
        """Keep the state for the next slice, after the commit; return False if that is too much."""
        self._removed.clear()
        self._stored = set(self._since)
        self._complete, self._in_table, self._thinned = set(), set(), set()
        del self._context  # it has the steps and events of the slice; `begin` sets that of the next one
        if self.body_bytes > MAX_KEPT_BYTES:
            for key in list(self._records):
                self._forget_records(key)
        self._rank_bytes = BYTES_A_RANK * sum(map(len, self._ranks.values()))
        if self._rank_bytes > MAX_KEPT_BYTES:
            self._ranks.clear()
            self._rank_bytes = 0
        return len(self._since) <= MAX_KEPT_STEPS

    @property
    def _run_id(self) -> str:
        return self._context.run.id

    def _find_complete(self, keys: Iterable[Key]) -> set[Key]:
        known = self._context.repositories.steps.complete_steps
        return {
            (attempt, step)
            for attempt, steps in _by_attempt(keys).items()
            for step in known(self._run_id, attempt, steps)
        }

    def _find_thinned(self, keys: Iterable[Key]) -> set[Key]:
        """Return the steps that thinning has removed, of some that neither are complete nor wait.

        The log before the new records has a record of such a step.
        """
        run, recorded = self._context.run, self._context.repositories.records.recorded_steps
        if not run.has_thinned_steps:
            return set()
        return {
            (attempt, step)
            for attempt, steps in _by_attempt(keys).items()
            for step in recorded(run.id, attempt, steps, up_to=run.position)
        }

    def _put(self, key: Key, since: float) -> None:
        self._since[key] = since
        heapq.heappush(self._order, key)

    def _forget_records(self, key: Key) -> None:
        records = self._records.pop(key, None)
        if records is not None:
            self.body_bytes -= records.body_bytes

    def _read_more(self) -> None:
        stored = self._context.repositories.waiting
        found = stored.first(self._run_id, after=self._read_to, limit=FIRST_STEPS)
        self._is_all_read = len(found) < FIRST_STEPS
        if self._read_to < (0, 0):
            self._count += len(found) if self._is_all_read else stored.count_of(self._run_id)
        for key, since in found.items():
            self._read_to = key
            self._stored.add(key)
            if key in self._removed or key in self._complete:
                self._stored.discard(key)
            elif key not in self._since:
                self._put(key, since)

    def _read_records(self, key: Key) -> None:
        """Read the records of a step, and of some later steps of its attempt, up to the projected position."""
        attempt = key[0]
        count = max(1, RECORDS_READ_AHEAD // self._context.world_size(attempt))
        ahead = heapq.nsmallest(count, (other for other in self._stored if other[0] == attempt and other >= key))
        wanted = {step for _, step in [key, *ahead] if (attempt, step) not in self._records}
        self._records[key] = StepRecords(self._bounds)
        found = self._context.repositories.records.of_steps(
            self._run_id, attempt, wanted, bounds=self._bounds, up_to=self._context.run.position
        )
        for step, stored in found:
            records = self._records.setdefault((attempt, step), StepRecords(self._bounds))
            for record in stored.records:
                records.add(record)
            records.left_out = stored.left_out
            self.body_bytes += records.body_bytes
            if self.body_bytes > MAX_KEPT_BYTES:
                break  # the other records are read in order later


def _by_attempt(keys: Iterable[Key]) -> dict[int, list[int]]:
    by_attempt: dict[int, list[int]] = {}
    for attempt, step in keys:
        by_attempt.setdefault(attempt, []).append(step)
    return by_attempt


class WaitingCache:
    """The waiting steps of the runs that were projected last, each with the revision of its run."""

    def __init__(self, bounds: StepBounds) -> None:
        self._bounds = bounds
        self._steps: OrderedDict[str, tuple[int, WaitingSteps]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the records and ranks that are kept."""
        return sum(each.kept_bytes for _, each in list(self._steps.values()))

    def take(self, context: RunContext) -> WaitingSteps:
        """Return a run's waiting steps for a slice, and remove them from the cache until `keep`."""
        held = self._steps.pop(context.run.id, None)
        if held is None or held[0] != context.run.revision:
            return WaitingSteps(context, self._bounds)
        held[1].begin(context)
        return held[1]

    def keep(self, run_id: str, steps: WaitingSteps, *, revision: int) -> None:
        """Keep a run's waiting steps after a commit, unless they are too many."""
        if not steps.end():
            return
        self._steps[run_id] = (revision, steps)
        held = self.kept_bytes if steps.kept_bytes else 0
        while len(self._steps) > MAX_CACHED_RUNS or held > MAX_CACHED_BYTES:
            _, (_, dropped) = self._steps.popitem(last=False)
            held -= dropped.kept_bytes

    def forget(self, run_id: str | None = None) -> None:
        """Drop the waiting steps of a run, or of all runs."""
        if run_id is None:
            self._steps.clear()
        else:
            self._steps.pop(run_id, None)
