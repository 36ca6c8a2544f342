"""Garbles the action tokens of recorded responses, in the three ways in which responses become unreadable."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["GARBLINGS", "Garbling"]

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]
LONGEST_PERIOD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbling:
    """A way to garble one response.

    Attributes:
        form: The form that the detector should name.
        garble: Takes the token ids of an action, the size of the vocabulary and a generator; gives other ids.
        is_fluent: Whether the policy is as sure of these tokens as of its own. If not, they are scored by the policy.
    """

    form: str
    garble: Callable[[Ids, int, np.random.Generator], Ids]
    is_fluent: bool

    def apply(self, tokens: Ids, mask: Flags, share: float, size: int, rng: np.random.Generator) -> Ids:
        """Return the tokens ``(B, T)`` with a share of the responses garbled, action by action."""
        garbled = tokens.copy()
        chosen = rng.permutation(len(tokens))[: round(share * len(tokens))]
        for row in chosen:
            places = np.flatnonzero(mask[row])
            for action in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
                garbled[row, action] = self.garble(tokens[row, action], size, rng)
        return garbled


def _loop(ids: Ids, _: int, rng: np.random.Generator) -> Ids:
    """Repeat the first one to eight tokens to the end of the action."""
    return np.resize(ids[: int(rng.integers(1, LONGEST_PERIOD + 1))], len(ids))


def _translate(ids: Ids, size: int, _: np.random.Generator) -> Ids:
    """Say the same in tokens that the run has never used."""
    return ids + size


def _shuffle(ids: Ids, _: int, rng: np.random.Generator) -> Ids:
    """Say the same words in no order."""
    return rng.permutation(ids)


def _draw(ids: Ids, size: int, rng: np.random.Generator) -> Ids:
    """Say anything: each token is drawn from the whole vocabulary."""
    return rng.integers(0, size, len(ids))


GARBLINGS: dict[str, Garbling] = {
    "loop": Garbling(form="loop", garble=_loop, is_fluent=True),
    "another language": Garbling(form="language", garble=_translate, is_fluent=True),
    "words in no order": Garbling(form="gibberish", garble=_shuffle, is_fluent=False),
    "random tokens": Garbling(form="gibberish", garble=_draw, is_fluent=False),
}
