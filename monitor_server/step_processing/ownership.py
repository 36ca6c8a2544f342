"""Decides which runs this projector owns, if several projectors share the database."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.projection_queue import RunBehind
from monitor_server.store.repositories.runs import Run

__all__ = ["OWNER_SECONDS", "Ownership"]

# A run stays with the collector that has its detectors in memory. Another collector takes over a dead one after this
# time.
OWNER_SECONDS = 3.0
MAX_OWNED_RUNS = 512
# The runs of other projectors that are watched. One that dies may leave more runs than it kept in memory.
MAX_OTHER_RUNS = 10_000
# The largest number of runs that are taken at one tick; the next tick finds more.
MAX_TAKEN_RUNS = 64


class Ownership:
    """Claims runs for one projector; each slice that the projector commits prolongs its ownership of the run.

    Args:
        owner: The name of this projector; None if it is alone with the database and owns every run.
        clock: Returns seconds since the epoch.
        monotonic: A clock that is never set.
    """

    def __init__(
        self, owner: str | None, *, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._monotonic = monotonic
        self._until: dict[str, float] = {}
        # The last ownership by another projector that was read, and the time at which it was read first.
        self._others: dict[str, tuple[tuple[str, float], float]] = {}
        self._log_ends: dict[str, int] = {}  # of the runs of others when they were last found behind

    def __len__(self) -> int:
        return len(self._until)

    @property
    def watched_runs(self) -> int:
        """The number of runs of other projectors whose ownership is watched, at most `MAX_OTHER_RUNS`."""
        return len(self._others)

    @property
    def late_runs(self) -> int:
        """The number of runs of other projectors that were found behind, at most `MAX_OTHER_RUNS`."""
        return len(self._log_ends)

    def forget(self, run_id: str | None = None) -> None:
        """Forget the owner of a run, or of every run, so that it is read again."""
        if run_id is None:
            self._until.clear()
            self._others.clear()
        else:
            self._until.pop(run_id, None)

    def claim(self, store: Store, run_id: str) -> bool:
        """Make this projector the owner of a run; return False if another one is, or if there is no such run.

        While the ownership of the last slice lasts, nothing is read, because no other projector takes the run.
        """
        if self._owner is None or self._until.get(run_id, 0.0) > self._clock():
            return True
        with store.read() as repositories:
            run, now = repositories.runs.find(run_id), self._clock()
        if run is None or run.owner == self._owner:
            return run is not None
        held = None if run.owner is None else (run.owner, run.owned_until or 0.0)
        if held is not None and held[1] > now and not self._is_abandoned(run_id, held):
            return False
        return self._take(store, run_id, held)

    def _is_abandoned(self, run_id: str, held: tuple[str, float]) -> bool:
        """Return whether another projector's ownership has not changed for as long as an ownership lasts.

        The stored end of an ownership is not enough: the clock of a dead owner's machine may have been hours ahead.
        """
        now = self._monotonic()
        known, since = self._others.get(run_id, (None, now))
        if known == held:
            return now - since >= OWNER_SECONDS
        if len(self._others) >= MAX_OTHER_RUNS:
            self._others.clear()
        self._others[run_id] = held, now
        return False

    def share(self, store: Store, behind: Sequence[RunBehind], *, is_idle: bool) -> int:
        """Keep the own runs that wait for their turn, and take late runs of others if this projector is idle.

        A run is late if records that waited when it was last found behind still wait. Its owner keeps half of its late
        runs, and at least one, so that two projectors do not take a run from each other for ever.

        Args:
            store: Where owners are written.
            behind: Runs that wait, with their current owners; if there are many, other ones at each tick.
            is_idle: Whether this projector has nothing to do.

        Returns:
            The number of runs that were taken.

        Raises:
            Unavailable: If the store cannot be written.
        """
        if self._owner is None:
            return 0
        self._keep(store)
        of_others = [each for each in behind if self.is_taken(each)]
        late: dict[str, list[RunBehind]] = defaultdict(list)
        for each in of_others:
            if each.position < self._log_ends.get(each.run_id, 0):
                late[str(each.owner)].append(each)
        for each in of_others[:MAX_OTHER_RUNS]:
            self._log_ends.pop(each.run_id, None)
            self._log_ends[each.run_id] = each.log_end  # as the newest entry
        while len(self._log_ends) > MAX_OTHER_RUNS:
            del self._log_ends[next(iter(self._log_ends))]
        if not is_idle:
            return 0
        wanted = [each for runs in late.values() for each in runs[: len(runs) // 2]][:MAX_TAKEN_RUNS]
        return sum(self._take(store, each.run_id, (str(each.owner), each.owned_until or 0.0)) for each in wanted)

    def _keep(self, store: Store) -> None:
        """Prolong the ownership of runs whose next turn comes after its end.

        If such a run were free for a moment, two busy projectors would take it from each other, and read the state of
        the detectors from the store for each slice.
        """
        now = self._clock()
        soon = now + OWNER_SECONDS * 2 / 3
        with store.read() as repositories:
            is_ending = repositories.projection_queue.has_ending(str(self._owner), before=soon)
        if is_ending:
            with store.write() as repositories:
                repositories.projection_queue.prolong(
                    str(self._owner), before=soon, until=now + OWNER_SECONDS, most=MAX_OWNED_RUNS
                )

    def _take(self, store: Store, run_id: str, held: tuple[str, float] | None) -> bool:
        """Take a run that is free, or whose owner and end of ownership are still those that were read."""
        now = self._clock()
        with store.write() as repositories:
            return repositories.projection_queue.claim(
                run_id, str(self._owner), now=now, until=now + OWNER_SECONDS, abandoned=held
            )

    def is_taken(self, run: Run | RunBehind) -> bool:
        """Return whether another projector owns a run."""
        return self._owner is not None and run.owner not in (None, self._owner)

    def prolong(self, run: Run, stored: Run) -> None:
        """Prolong the ownership of a run that is about to be saved, unless another projector has taken the run.

        Args:
            run: The run as it is saved.
            stored: The run as it is in the database.
        """
        if self.is_taken(stored):
            run.owner, run.owned_until = stored.owner, stored.owned_until
        elif self._owner is not None:
            run.owner, run.owned_until = self._owner, self._clock() + OWNER_SECONDS

    def confirm(self, run: Run) -> None:
        """Rely on the ownership of a run that has been saved."""
        if self._owner is None or run.owned_until is None:
            return
        if self.is_taken(run):
            self._until.pop(run.id, None)
            return
        if len(self._until) >= MAX_OWNED_RUNS:
            self._until.clear()
        self._until[run.id] = run.owned_until

    def release(self, repositories: Repositories) -> None:
        """Release all runs of this projector, so that others can take them."""
        self._until.clear()
        if self._owner is not None:
            repositories.projection_queue.release(self._owner)
