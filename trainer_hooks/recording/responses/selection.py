"""Chooses the few responses of a step that are sent with its record. The rules are the same on the host and a device.

A device cannot count its rows without waiting. There `rank_rows` ranks all rows, the first few of each criterion are
fetched (`candidates`), and `select_rows` then decides among these on the host.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays import Array, Pending
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.wire import RESPONSE_KINDS, ResponseKind

__all__ = [
    "Candidates",
    "Ranking",
    "SamplingInterval",
    "find_resembling_on_device",
    "offer_all",
    "rank_rows",
    "select_rows",
]


class Candidates(NamedTuple):
    """Responses of a step on the host, from which the sampled ones are selected.

    Attributes:
        tokens: Their tokens.
        drawable: Rows from which the random responses are drawn; all rows if None.
    """

    tokens: ActionTokens
    drawable: list[int] | None = None


class Ranking(NamedTuple):
    """Rows ordered by one criterion.

    Attributes:
        rows: The first rows.
        is_eligible: Whether each of all rows meets the criterion at all, shape ``(B,)``.
    """

    rows: Array
    is_eligible: Array


class SamplingInterval:
    """Decides at which steps responses are sampled.

    Args:
        responses: Most responses of each kind; with 0 no step is sampled.
        seconds: Shortest time between two sampled steps; with 0 every step is sampled.
    """

    def __init__(self, responses: int, seconds: float) -> None:
        self._responses = responses
        self._seconds = seconds
        self._sampled_at = -inf

    def is_due(self, now: float) -> bool:
        """Whether to sample the step of this time, in seconds since the epoch; after a clock was set back it is due."""
        if not self._responses or 0 <= now - self._sampled_at < self._seconds:
            return False
        self._sampled_at = now
        return True


def offer_all(tokens: ActionTokens) -> Pending[Candidates]:
    """Make candidates of all responses of a step that is on the host."""
    return Pending((), partial(Candidates, tokens))


def rank_rows(tokens: ActionTokens, count: int) -> dict[ResponseKind, Ranking]:
    """Rank the rows of a step by each criterion that needs no other row, ``count`` rows each.

    - unlikely: lowest mean ln π_θ over action tokens; NaN and −Inf come first.
    - longest: most action tokens.
    - displaced: the mean of ln π_θ − ln π_old over action tokens fell most; correct responses come first.
    """
    library, xp, lengths = tokens.library, tokens.xp, tokens.lengths
    has_action = lengths > 0
    mean = tokens.logprob_sums.by_response / lengths
    likelihood = xp.where(xp.isnan(mean), -inf, mean)
    rankings: dict[ResponseKind, Ranking] = {
        "unlikely": Ranking(library.argsort(~has_action, likelihood)[:count], has_action),
        "longest": Ranking(library.argsort(-lengths)[:count], has_action),
    }
    if tokens.log_ratio_sums is not None:
        change = tokens.log_ratio_sums.by_response / lengths
        fell = has_action & (change < 0)
        rows = library.argsort(~fell, ~tokens.rollouts.is_correct, change)[:count]
        rankings["displaced"] = Ranking(rows, fell)
    return rankings


def select_rows(
    tokens: ActionTokens, count: int, generator: random.Random, drawable: Sequence[int] | None = None
) -> dict[int, list[ResponseKind]]:
    """Select rows on the host, each with the kinds for which it was selected.

    Besides the kinds of `rank_rows`:

    - resembling: for each displaced correct response, the incorrect one of its group that shares the longest prefix.
    - random: drawn from all rows or from ``drawable``, so that the other kinds can be compared with ordinary responses.

    Responses without an action are never selected.
    """
    by_kind: dict[ResponseKind, Sequence[int]] = {
        kind: [row for row in ranking.rows.tolist() if ranking.is_eligible[row]]
        for kind, ranking in rank_rows(tokens, count).items()
    }
    has_action: list[int] = np.flatnonzero(tokens.lengths).tolist()
    pool = has_action if drawable is None else [row for row in has_action if row in drawable]
    by_kind["random"] = generator.sample(pool, min(count, len(pool)))
    is_correct = tokens.rollouts.is_correct
    displaced_correct = [row for row in by_kind.get("displaced", ()) if is_correct[row]]
    by_kind["resembling"] = _find_resembling(tokens, displaced_correct)
    selected: dict[int, list[ResponseKind]] = {}
    for kind in RESPONSE_KINDS:
        for row in by_kind.get(kind, ()):
            selected.setdefault(row, []).append(kind)
    return selected


def _find_resembling(tokens: ActionTokens, rows: Sequence[int]) -> list[int]:
    """Return for each row the incorrect row of its group that shares the longest prefix, on the host.

    Only the few rows of a group are compared, a tenth of the work of `find_resembling_on_device`.
    """
    ids, groups = tokens.rollouts.token_ids, tokens.rollouts.group_ids
    found: dict[int, None] = {}
    if ids is not None and groups is not None and rows:
        begins, ends = tokens.layout.spans
        is_rival = tokens.rollouts.is_incorrect & (tokens.lengths > 0)
        for row in rows:
            own = ids[row, begins[row] : ends[row]]
            rivals = np.flatnonzero(is_rival & (groups == groups[row]))
            shared = [_count_shared_prefix(own, ids[rival, begins[rival] : ends[rival]]) for rival in rivals]
            if shared:
                found[int(rivals[shared.index(max(shared))])] = None
    return list(found)


def _count_shared_prefix(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    shorter = min(len(first), len(second))
    differs = first[:shorter] != second[:shorter]
    place = int(differs.argmax())
    return place if differs[place] else shorter


def find_resembling_on_device(tokens: ActionTokens, group: Array, row: Array) -> Array:
    """Return the incorrect row of a row's group that shares the longest prefix, shape ``(1,)``, without waiting.

    A prefix begins at the first action token. Where the group has no incorrect row, some row is returned.

    Args:
        tokens: The step's.
        group: Group of each response, shape ``(B,)``.
        row: The row, shape ``(1,)``.
    """
    rollouts, library, xp, width = tokens.rollouts, tokens.library, tokens.xp, tokens.layout.width
    token_ids: Array = rollouts.token_ids
    to_float64: Callable[[Array], Array] = library.to_float64
    offsets = library.select_places(rollouts.mask[:1])[None, :]
    places = xp.argmax(to_float64(rollouts.mask), axis=1)[:, None] + offsets
    last = width - 1 - xp.argmax(to_float64(xp.flip(rollouts.mask, (1,))), axis=1)[:, None]
    row_begins = tokens.layout.response.reshape(-1, width)[:, :1] * width
    ids = token_ids.reshape(-1)[library.to_integers(xp.clip(places, 0, width - 1) + row_begins)]
    # Past its last action token a row has nothing in common with any other.
    differs = (ids != ids[row]) | (places > last) | (places[row] > last[row])
    shared = xp.where(differs.any(axis=1), xp.argmax(to_float64(differs), axis=1), width)
    is_rival = (group == group[row]) & rollouts.is_incorrect & (tokens.lengths > 0)
    return xp.argmax(xp.where(is_rival, shared, -1), axis=0).reshape(1)
