"""Makes the same action due after the same step on every rank, or on none. Adds no collective (decision 0004).

Ranks hear of an alert at different moments, and one that stops, saves or skips alone leaves the others waiting in a
collective for ever. So a rank acts only on what all have agreed on, and they agree over the key-value store by which
the process group itself was built:

1. Rank 0 hears of the alert and *proposes*. A rank that has heard of the same alert sees that and *arms* itself: from
   now on it looks into the store after every step.
2. Once all are armed, rank 0 *fixes* the step after which to act: the next one. It does so before it takes part in
   that step's collectives, and no rank can end the step before rank 0 has taken part. So every rank that ends the step
   and looks finds the word there.
3. If a rank never hears, nothing is fixed, and after a while rank 0 refuses: nothing is done anywhere.

While nothing is proposed, nobody touches the store or waits for the device.
"""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from torch import distributed

from trainer_hooks.actions import Decision
from trainer_hooks.ranks.process_group import Store, settle, shared_store

__all__ = ["Agreement", "Alone", "Refusing", "Settlement", "Verdict", "settlement"]

# Alerts come with the answer to a batch, so with every step; the heartbeat of an idle rank is 15 s.
PATIENCE_SECONDS = 60.0
REFUSED = "refused"

# The same on every rank, because all run one script; where they are not, nobody answers, and nothing is done.
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision that is to be taken now, or the reason why it never will be; one rank of all reports it."""

    decision: Decision
    refusal: str | None = None
    is_reported_here: bool = True


class Settlement(Protocol):
    """Says after each step what to do now; asked by every rank after every step."""

    def due(self, decisions: Iterable[Decision], step: int) -> list[Verdict]:
        """Take in new decisions of this rank, and give what is settled of all that are open."""


class Alone:
    """One process, which need not ask anybody."""

    def due(self, decisions: Iterable[Decision], step: int) -> list[Verdict]:
        """Settle everything at once."""
        return [Verdict(decision) for decision in decisions]


class Refusing:
    """Several processes that cannot agree.

    Args:
        reason: Why not.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def due(self, decisions: Iterable[Decision], step: int) -> list[Verdict]:
        """Refuse everything."""
        return [Verdict(decision, self._reason) for decision in decisions]


@dataclass(slots=True)
class _Open:
    """A decision on its way."""

    decision: Decision
    since: float
    is_armed: bool = False
    after_step: int | None = None


class Agreement:
    """Several processes over their process group's store.

    It is right where every rank takes part in a collective in every step, as in data-parallel and sharded training.

    Args:
        store: Shared by the ranks.
        rank: This process's rank.
        world_size: Number of processes.
        settle: Waits until the device has done the step; the processor may be ahead of it.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        rank: int,
        world_size: int,
        settle: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rank = rank
        self._world_size = world_size
        self._settle = settle
        self._clock = clock
        self._open: dict[str, _Open] = {}

    @classmethod
    def of_process_group(cls) -> Self:
        """Agree over the default process group's store."""
        return cls(
            shared_store(f"agreement {next(_numbers)}"),
            rank=distributed.get_rank(),
            world_size=distributed.get_world_size(),
            settle=settle,
        )

    def due(self, decisions: Iterable[Decision], step: int) -> list[Verdict]:
        """Give what every rank does after this step, in one order on all of them."""
        verdicts = []
        for decision in decisions:
            if decision.action == "notify":  # each rank has said it
                verdicts.append(Verdict(decision, is_reported_here=self._rank == 0))
            else:
                self._open[decision.key] = _Open(decision, self._clock())
        for key, heard in sorted(self._open.items()):
            refusal = self._lead(key, heard, step) if self._rank == 0 else self._follow(key, heard)
            if refusal is not None or (heard.after_step is not None and step >= heard.after_step):
                del self._open[key]
                # Rank 0 speaks for all, but it does not know of what it never heard.
                is_reported_here = self._rank == 0 or not heard.is_armed
                verdicts.append(Verdict(heard.decision, refusal, is_reported_here))
        return verdicts

    def _lead(self, key: str, heard: _Open, step: int) -> str | None:
        """Propose, fix the step once all are armed, and give the refusal where one never is."""
        if not heard.is_armed:
            self._store.set(f"{key}/proposed", "")
            heard.is_armed = True
        if heard.after_step is not None or self._read(key, heard):
            return None
        armed = 1 + self._store.add(f"{key}/armed", 0)
        if armed == self._world_size:
            self._store.set(f"{key}/after", str(step + 1))
            # A store answers for nothing that is set. What it gives back is there for everyone, and only then may
            # this rank go on to the step's collectives.
            self._read(key, heard)
        elif self._is_late(heard):
            self._store.set(f"{key}/after", REFUSED)
            return f"only {armed} of {self._world_size} ranks heard of the alert within {PATIENCE_SECONDS:.0f} s"
        return None

    def _follow(self, key: str, heard: _Open) -> str | None:
        """Arm when it is proposed, then look after each step; give the refusal where there is one."""
        if heard.after_step is not None:
            return None
        if not heard.is_armed:
            if self._store.check([f"{key}/proposed"]):
                self._settle()
                self._store.add(f"{key}/armed", 1)
                heard.is_armed = True
            elif self._is_late(heard):
                return f"rank 0 proposed nothing within {PATIENCE_SECONDS:.0f} s"
            return None
        self._settle()
        if self._read(key, heard) and heard.after_step is None:
            return "rank 0 has refused, because another rank did not hear of the alert in time"
        return None

    def _read(self, key: str, heard: _Open) -> bool:
        """Read what rank 0 has fixed; say whether it has."""
        if not self._store.check([f"{key}/after"]):
            return False
        word = self._store.get(f"{key}/after").decode()
        heard.after_step = None if word == REFUSED else int(word)
        return True

    def _is_late(self, heard: _Open) -> bool:
        return self._clock() - heard.since > PATIENCE_SECONDS


def settlement(world_size: int) -> Settlement:
    """Choose how a training of so many processes settles what to do."""
    if world_size == 1:
        return Alone()
    if not (distributed.is_available() and distributed.is_initialized()):
        return Refusing(f"{world_size} processes without a process group of torch.distributed cannot agree")
    if distributed.get_world_size() != world_size:
        return Refusing(f"{world_size} processes must be one process group, got {distributed.get_world_size()}")
    return Agreement.of_process_group()
