"""Scores the same tokens under the weights before and after an update. Depends on torch and on no framework.

At every n-th step this costs one forward pass of the responses after the update, and one before it where the trainer
does not have their scores anyway.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from trainer_hooks.errors import RolloutsError
from trainer_hooks.probes.forward_pass import without_trace
from trainer_hooks.probes.paired import Paired
from trainer_hooks.ranks.participation import Unanimity

__all__ = ["PairedProbe", "Scorer"]

Scorer: TypeAlias = Callable[[], tuple[Tensor, Tensor | None]]


class PendingScores(NamedTuple):
    """Responses that wait for the update; ``before`` is None if their first pass failed."""

    score: Scorer
    before: tuple[Tensor, Tensor | None] | None
    mask: Tensor
    correct: Tensor
    fresh: Tensor | None


class PairedProbe:
    """Stores responses of a step, and scores them again after the update.

    Use responses that the update does not train on: those of groups whose rewards are all equal, or those that you hold
    out. Responses that the update trains on may be among them; ``fresh`` distinguishes the two.

    With several processes a forward pass may be collective: sharded weights are gathered, and DistributedDataParallel
    sends buffers. Therefore construct a probe on every rank, and call `note` equally often at the same steps on every
    rank, whatever its responses are. No step is due before all ranks are known to have a probe, which is from the third
    step on, or never. The states of random generators are not changed.

    Args:
        every: Score at each step whose number is a multiple of this, ≥ 1.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        self._every = every
        self._ranks = Unanimity(f"paired re-scoring every {every} steps")
        self._pending: list[PendingScores] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which scores another training: responses that wait for an update are left out."""
        return vars(self) | {"_pending": []}

    def is_due(self, step: int) -> bool:
        """Return whether to score at this step; the same on every rank."""
        return step % self._every == 0 and self._ranks.is_unanimous

    def note(
        self,
        score: Scorer,
        *,
        mask: Tensor,
        correct: Tensor,
        fresh: Tensor | None = None,
        before: tuple[Tensor, Tensor | None] | None = None,
    ) -> None:
        """Store responses before the update.

        Args:
            score: Returns log-probabilities, and entropies or None, under the current weights, each ``(B, T)``, nats.
            mask: True on action tokens, shape ``(B, T)``.
            correct: Whether each response is correct, shape ``(B,)``.
            fresh: True on responses that the update does not train on, shape ``(B,)``; all unless given.
            before: The result that ``score`` would return now, where it is known; otherwise ``score`` is called. If it
                raises, it is called again after the update all the same, because the other ranks make that pass too.
        """
        known = None
        try:
            known = _score(score) if before is None else _without_graph(_check_pair("before", before))
        finally:
            self._pending.append(PendingScores(score, known, mask, correct, fresh))

    def forget(self) -> None:
        """Discard responses whose update was never made, as when training raised in between."""
        self._pending.clear()

    def after_update(self) -> list[Paired]:
        """Score the stored responses again under the current weights, and discard them; call this at every step.

        An error is raised after all passes have been made, because the other ranks may wait for this one in each.
        """
        self._ranks.after_step()
        pending, self._pending = self._pending, []
        found: list[Paired] = []
        errors: list[Exception] = []
        for item in pending:
            try:
                after = _score(item.score)
                if item.before is not None:
                    found.append(Paired(item.before, after, mask=item.mask, correct=item.correct, fresh=item.fresh))
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        for failed in errors:
            raise failed
        return found


def _score(score: Scorer) -> tuple[Tensor, Tensor | None]:
    with without_trace():
        return _check_pair("what score returns", score())


def _without_graph(scores: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """Return the scores without their graph, which would stay in memory where the update is skipped."""
    logprobs, entropies = scores
    return logprobs.detach(), None if entropies is None else entropies.detach()


def _check_pair(name: str, given: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    if isinstance(given, tuple | list) and len(given) == 2:  # noqa: PLR2004 - a tensor would be split into its rows
        return given
    raise RolloutsError(f"{name} must be a pair: log-probabilities, and entropies or None; got {type(given).__name__}")
