"""The records that come after their step was complete: the stored step is merged again, with them.

Detection does not process the step again.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from monitor_server.settings import Settings
from monitor_server.step_processing.run_context import Key, RunContext
from monitor_server.step_processing.steps.budget import Budget
from monitor_server.step_processing.steps.rank_merging import merge_records, step_bounds
from monitor_server.store.repositories.log.step_records import StoredStep
from trainer_hooks import wire

__all__ = ["LateRecords"]

log = logging.getLogger(__name__)

# For steps that are merged again; a record has up to about 30 KB.
RECORDS_READ_AT_ONCE = 256
MAX_FULL_STEPS = 4_096  # the steps whose end is remembered, so that their late records are not looked up


class LateRecords:
    """Merges complete steps again with their late records.

    Args:
        settings: The bounds of a step's records.
        on_left_out: Called with the number of a step's records that exceed the bounds and are not merged.
    """

    def __init__(self, settings: Settings, *, on_left_out: Callable[[int], None] = lambda _: None) -> None:
        self._bounds = step_bounds(settings)
        self._on_left_out = on_left_out
        # For steps beyond the bounds: the log position up to which records are merged.
        self._ends: OrderedDict[tuple[str, Key], int] = OrderedDict()
        self._mended: OrderedDict[str, tuple[int, set[Key]]] = OrderedDict()

    @property
    def full_steps(self) -> int:
        """The number of steps beyond the bounds whose merged records are remembered."""
        return len(self._ends)

    @property
    def mended_runs(self) -> int:
        """The number of runs whose mended steps are remembered, at most `MAX_FULL_STEPS`."""
        return len(self._mended)

    def forget(self, run_id: str | None = None) -> None:
        """Drop a run, or all runs, from memory, because the store did not accept the change."""
        self._ends.clear()
        if run_id is None:
            self._mended.clear()
        else:
            self._mended.pop(run_id, None)

    def note_complete(self, context: RunContext, key: Key, *, left_out: int) -> None:
        """Note that a step was merged for the first time, without a number of records that exceed the bounds."""
        self._report_left_out(context, key, left_out)
        self._ends.pop((context.run.id, key), None)

    def mend(self, context: RunContext, late: Mapping[Key, Sequence[int]], budget: Budget) -> bool:
        """Merge complete steps again, with their late records; return False if the budget was spent first.

        Steps that were merged by then are not merged again when the same records are passed again.

        Args:
            context: The run, at the position up to which records are merged.
            late: The positions of the late records of each step.
            budget: The budget of the slice.
        """
        if not late:
            return True
        mended = self._find_mended(context.run.id, context.run.position)
        by_attempt: dict[int, list[int]] = {}
        for key in sorted(late.keys() - mended):
            if min(late[key]) > self._ends.get((context.run.id, key), max(late[key])):
                self._report_left_out(context, key, len(late[key]))
                mended.add(key)
            else:
                by_attempt.setdefault(key[0], []).append(key[1])
        for attempt, steps in by_attempt.items():
            read = max(1, RECORDS_READ_AT_ONCE // context.world_size(attempt))
            for begin in range(0, len(steps), read):
                found = context.repositories.records.of_steps(
                    context.run.id,
                    attempt,
                    steps[begin : begin + read],
                    bounds=self._bounds,
                    up_to=context.run.position,
                )
                for step, stored in found:
                    if budget.is_spent:
                        return False
                    key = (attempt, step)
                    self._mend_step(context, key, stored)
                    if stored.left_out:
                        self._remember_end(context, key, stored.end)
                        beyond = sum(1 for position in late[key] if position > stored.end)
                        self._report_left_out(context, key, beyond)
                    mended.add(key)
                    budget.spend(records=len(stored.records))
        return True

    def _find_mended(self, run_id: str, position: int) -> set[Key]:
        """Return the steps that were already mended with the records up to a position; this may take many slices."""
        known, mended = self._mended.pop(run_id, (position, set()))
        self._mended[run_id] = (position, mended if known == position else set())
        if len(self._mended) > MAX_FULL_STEPS:
            self._mended.popitem(last=False)
        return self._mended[run_id][1]

    def _mend_step(self, context: RunContext, key: Key, stored: StoredStep) -> None:
        attempt, step = key
        if any(not record.body for record in stored.records):
            log.warning(
                "a record of step %d of run %r comes after the others of its step were removed by retention: it is "
                "stored, and the step stays as it is",
                step,
                context.run.name,
            )
            return
        decoded = ((record.rank, wire.decode_record(record.body)) for record in stored.records)
        ranks = context.known_world_size(attempt)
        merged = merge_records(decoded, step=step, attempt=attempt, now=context.now, world_size=ranks)
        (context.completed if key in context.completed else context.mended)[key] = merged

    def _remember_end(self, context: RunContext, key: Key, end: int) -> None:
        self._ends[context.run.id, key] = end
        if len(self._ends) > MAX_FULL_STEPS:
            self._ends.popitem(last=False)

    def _report_left_out(self, context: RunContext, key: Key, count: int) -> None:
        if not count:
            return
        self._on_left_out(count)
        log.warning(
            "step %d of run %r has more records than are merged, %d records or %d bytes: %d others are stored and "
            "change nothing; send each step once a rank, or raise RLVITALS_MAX_STEP_RECORDS or RLVITALS_MAX_STEP_BYTES",
            key[1],
            context.run.name,
            self._bounds.records,
            self._bounds.body_bytes,
            count,
        )
