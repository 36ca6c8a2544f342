"""Makes the same action due after the same step on every rank, or on none. Adds no collective (decision 0004).

Ranks receive an alert at different moments. A rank that stops, saves or skips alone leaves the others waiting in a
collective for ever. So a rank acts only when all ranks have agreed, over the key-value store with which the process
group itself was built:

1. Rank 0 receives the alert and *proposes* the action. A rank that has received the same alert sees the proposal and
   *arms* itself: from then on it reads the store after every step.
2. When all ranks are armed, rank 0 *fixes* the step after which to act, which is the next one. It writes this before it
   takes part in that step's collectives, and no rank can end the step before rank 0 has taken part. So every rank that
   reads the store at the end of that step finds it.
3. If a rank never receives the alert, nothing is fixed. Rank 0 refuses after some seconds and some steps, because no
   rank can answer another within one step of several minutes. Then no rank acts.
4. If a person's request expires by rank 0's clock before its step is fixed, rank 0 refuses it for all ranks. Once the
   step is fixed, the request is carried out. Rank 0 likewise refuses what is about steps that the loop has left behind.

Steps are counted here from the first one that a rank has ended, because a loop that goes back gives the same number to
several. The ranks must have begun with the same step: one that began with another sees no proposal of rank 0.

If the store fails, a rank that may have been counted on asks again after the next steps. It never acts after another
step than the one that rank 0 has fixed.

While nothing is proposed, no rank reads the store or waits for the device.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from torch import distributed

from trainer_hooks.actions import Decision
from trainer_hooks.ranks.coordinators import (
    EXPIRED,
    LEFT_BEHIND,
    Coordinator,
    RefusingCoordinator,
    SettledDecision,
    SingleProcessCoordinator,
    without_lost_rollbacks,
)
from trainer_hooks.ranks.process_group import KeyValueStore, open_store, synchronize_device
from trainer_hooks.text_safety import describe_error

__all__ = ["StoreCoordinator", "make_coordinator"]

# Alerts come with the answer to a batch, so each rank receives them at every step, or with a heartbeat every 15 s.
PATIENCE_SECONDS = 60.0
# A rank sees a proposal one step after rank 0 has made it, and rank 0 sees the answer one step later. One more step is
# for ranks that receive the alert later.
PATIENCE_STEPS = 3
# Rank 0 opens a decision before another rank arms itself. So it is late one step after that rank at the latest, and
# decides then. That rank reads it one step later.
LATE_STEPS = 2
REFUSED = "refused"

# Coordinators have the same numbers on every rank, because all ranks run one script. If the numbers differ, no rank
# answers the proposals of another, and no rank acts.
_numbers = itertools.count()

logger = logging.getLogger("trainer_hooks")


@dataclass(slots=True)
class _OpenDecision:
    """A decision on which the ranks have not agreed yet; its steps are counted from this rank's first one.

    A follower's patience begins anew when it arms itself.
    """

    decision: Decision
    opened_at: float
    opened_after: int
    is_left_behind: bool = False
    is_armed: bool = False
    is_proposed: bool = False
    after_step: int | None = None
    late_steps: int = 0
    has_warned: bool = False


class StoreCoordinator:
    """Lets several processes agree over the store of their process group.

    This is correct where every rank takes part in a collective in every step, as in data-parallel and sharded training.

    Args:
        store: Shared by the ranks.
        rank: This process's rank.
        world_size: Number of processes.
        synchronize: Waits until the device has finished the step; the host may be ahead of it.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: KeyValueStore,
        *,
        rank: int,
        world_size: int,
        synchronize: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rank = rank
        self._world_size = world_size
        self._synchronize = synchronize
        self._clock = clock
        self._open: dict[str, _OpenDecision] = {}
        self._first_step: int | None = None
        self._steps = 0
        self._has_gone_back = False

    @classmethod
    def of_process_group(cls) -> Self:
        """Make a coordinator over the store of the default process group."""
        return cls(
            open_store(f"agreement {next(_numbers)}"),
            rank=distributed.get_rank(),
            world_size=distributed.get_world_size(),
            synchronize=synchronize_device,
        )

    def settle(self, decisions: Iterable[Decision], step: int) -> list[SettledDecision]:
        """Return what every rank does after this step, in the same order on all ranks."""
        self._first_step = step if self._first_step is None else self._first_step
        self._steps += 1
        settled = []
        for decision in decisions:
            if decision.action == "notify":  # each rank has logged the alert already
                settled.append(SettledDecision(decision, is_reported_here=self._rank == 0))
            else:
                key = f"from step {self._first_step}/{decision.key}"
                is_left_behind = self._has_gone_back and decision.is_left_behind(step)
                self._open[key] = _OpenDecision(decision, self._clock(), self._steps, is_left_behind)
        for key, item in sorted(self._open.items()):
            try:
                refusal = self._coordinate(key, item) if self._rank == 0 else self._follow(key, item)
            except Exception as error:  # noqa: BLE001 - the other decisions must be carried out all the same
                refusal = self._miss(item, error)
            if refusal is None and item.after_step is not None and item.after_step < self._steps:
                refusal = "the process group's store gave this rank the step of the action too late"
            if refusal is not None or item.after_step == self._steps:
                del self._open[key]
                # Rank 0 reports for all ranks, except for an alert that it has not received.
                is_reported_here = self._rank == 0 or not item.is_armed
                settled.append(SettledDecision(item.decision, refusal, is_reported_here))
        return without_lost_rollbacks(settled)

    def go_back(self, step: int) -> None:
        """Refuse what is open about the steps left behind; rank 0 does, because each rank opens it at another step."""
        self._has_gone_back = True
        for item in self._open.values():
            item.is_left_behind = item.is_left_behind or item.decision.is_left_behind(step)

    def _coordinate(self, key: str, item: _OpenDecision) -> str | None:
        """Propose, and fix the step when all ranks are armed; return a refusal if a rank is not armed in time."""
        if item.after_step is not None:
            return None
        item.is_armed = True
        if item.is_left_behind or item.decision.has_expired(self._clock()):
            # The refusal comes first: a rank that sees the proposal then finds it.
            self._store.set(f"{key}/after", REFUSED)
            self._store.set(f"{key}/proposed", "")
            return LEFT_BEHIND if item.is_left_behind else EXPIRED
        if not item.is_proposed:
            self._store.set(f"{key}/proposed", "")
            item.is_proposed = True
        if self._read(key, item):
            return None
        armed = 1 + self._store.add(f"{key}/armed", 0)
        if armed == self._world_size:
            self._store.set(f"{key}/after", str(self._steps + 1))
            # A store does not confirm a write. A value that can be read back is visible to every rank, and only then
            # may this rank go on to the step's collectives.
            self._read(key, item)
        elif self._is_late(item):
            self._store.set(f"{key}/after", REFUSED)
            return (
                f"only {armed} of {self._world_size} ranks received the alert within {PATIENCE_SECONDS:.0f} s and "
                f"{PATIENCE_STEPS} steps"
            )
        return None

    def _follow(self, key: str, item: _OpenDecision) -> str | None:
        """Arm after the proposal, then read the store after each step; return a refusal where there is one."""
        if item.after_step is not None:
            return None
        if not item.is_armed:
            if self._store.check([f"{key}/proposed"]):
                self._synchronize()
                # Before the request, because one that fails may have been counted.
                item.is_armed, item.opened_at, item.opened_after = True, self._clock(), self._steps
                self._store.add(f"{key}/armed", 1)
            elif self._is_late(item):
                return f"rank 0 proposed nothing within {PATIENCE_SECONDS:.0f} s and {PATIENCE_STEPS} steps"
            return None
        self._synchronize()
        if self._read(key, item):
            return "rank 0 has refused it" if item.after_step is None else None
        if item.late_steps == LATE_STEPS:
            return "rank 0 has lost the store, and neither fixed a step nor refused"
        item.late_steps += self._is_late(item)
        return None

    def _miss(self, item: _OpenDecision, error: Exception) -> str | None:
        """Return a refusal where no rank can count on this one, or the store has failed for long."""
        reason = f"the process group's store failed: {describe_error(error)}"
        if not item.has_warned:
            logger.warning("rlvitals: %s, on which the ranks have to agree: %s", item.decision.action, reason)
        item.has_warned = True
        return reason if not item.is_armed or self._is_late(item) else None

    def _read(self, key: str, item: _OpenDecision) -> bool:
        """Read the step that rank 0 has fixed; return whether it has fixed one or refused."""
        if not self._store.check([f"{key}/after"]):
            return False
        value = self._store.get(f"{key}/after").decode()
        item.after_step = None if value == REFUSED else int(value)
        return True

    def _is_late(self, item: _OpenDecision) -> bool:
        seconds, steps = self._clock() - item.opened_at, self._steps - item.opened_after
        return seconds > PATIENCE_SECONDS and steps >= PATIENCE_STEPS


def make_coordinator(world_size: int) -> Coordinator:
    """Choose the coordinator for a training of this many processes."""
    if world_size == 1:
        return SingleProcessCoordinator()
    if not (distributed.is_available() and distributed.is_initialized()):
        return RefusingCoordinator(f"{world_size} processes without a process group of torch.distributed cannot agree")
    if distributed.get_world_size() != world_size:
        return RefusingCoordinator(
            f"{world_size} processes must be one process group, got {distributed.get_world_size()}"
        )
    try:
        return StoreCoordinator.of_process_group()
    except Exception as error:  # noqa: BLE001 - a group may have a store that is gone, or none
        return RefusingCoordinator(f"the process group's store cannot be opened: {describe_error(error)}")
