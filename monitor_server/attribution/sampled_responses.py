"""A sampled response in the form for attribution, with the computations that several of its parts need."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sampled", "distinct"]

GRAM: Final = 4
# The factor is odd, and its bits are spread. Two different 4-grams have the same hash modulo 2⁶⁴ about once in 2⁶⁴.
GRAM_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """One sampled response of T tokens, N of them action tokens, in A actions.

    Attributes:
        id: Its id in the store.
        step: Optimiser step.
        group: Equal for responses of one step to the same prompt; None if the trainer does not state it.
        correct: Whether it counts as correct.
        length: Action tokens of the whole response, of which N were kept.
        logprob: Σ ln π_θ over the whole, nats.
        displacement: Σ (ln π_θ − ln π_old) over the whole, nats; None if it is not observed.
        actions: First place and place after the last of each action, ``(A, 2)``.
        logprobs: ln π_θ of the action tokens, ``(N,)``.
        displacements: Displacement of the action tokens, ``(N,)``.
        token_ids: All T tokens, including feedback.
        pieces: Their texts.
    """

    id: str
    step: int
    group: tuple[int, ...] | None
    correct: bool
    length: int
    logprob: float
    displacement: float | None
    actions: NDArray[np.integer]
    logprobs: NDArray[np.floating]
    displacements: NDArray[np.floating] | None
    token_ids: NDArray[np.integer] | None
    pieces: Sequence[str] | None = None

    @cached_property
    def spoken(self) -> NDArray[np.intp]:
        """Places of the action tokens among the T tokens, ``(N,)``."""
        return np.concatenate([np.arange(first, after) for first, after in self.actions]).astype(np.intp)

    @cached_property
    def grams(self) -> NDArray[np.uint64]:
        """The distinct 4-grams of tokens within actions as 64-bit hashes; empty if the tokens are not known."""
        if self.token_ids is None:
            return np.empty(0, np.uint64)
        ids = self.token_ids.astype(np.int64).astype(np.uint64)
        hashes = np.zeros(max(0, len(ids) - GRAM + 1), np.uint64)
        for place in range(GRAM):
            hashes = hashes * GRAM_HASH_FACTOR + ids[place : place + len(hashes)]
        found = [hashes[first : max(first, after - GRAM + 1)] for first, after in self.actions.tolist()]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.uint64)

    @cached_property
    def action_of(self) -> NDArray[np.intp]:
        """Action of each action token, from 0, ``(N,)``."""
        return np.repeat(np.arange(len(self.actions)), self.actions[:, 1] - self.actions[:, 0])

    @property
    def mean_displacement(self) -> float | None:
        """Displacement for each action token, over the whole response."""
        return None if self.displacement is None else self.displacement / max(1, self.length)

    @property
    def mean_logprob(self) -> float:
        """Log-probability for each action token, over the whole response."""
        return self.logprob / max(1, self.length)


def distinct(responses: Sequence[Sampled]) -> list[Sampled]:
    """Drop repetitions: responses to one prompt at one step whose tokens are identical."""
    found: dict[object, Sampled] = {}
    for response in responses:
        ids, group = response.token_ids, response.group
        same = response.id if ids is None or group is None else (response.step, group, ids.tobytes())
        found.setdefault(same, response)
    return list(found.values())
