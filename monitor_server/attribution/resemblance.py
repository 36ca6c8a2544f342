"""The incorrect responses that resemble the displaced correct ones.

According to arXiv 2512.04220 (Theorem A.1, eq. 8 and 9), incorrect responses push down a correct response of their
group if their prefixes have similar hidden states (inner product). Hidden states are not sent to the collector. This
module compares tokens instead, because equal tokens lead to similar hidden states.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor_server.attribution.sampled_responses import Sampled

__all__ = ["Resembling", "closest", "resembling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resembling:
    """An incorrect response with a displaced correct one of its group.

    Attributes:
        response: Its id.
        displaced: The id of the correct one.
        shared_prefix: Tokens equal from the first action token on, feedback included.
        prefix_share: ``shared_prefix`` divided by the length of the shorter of the two.
        overlap: Share of its distinct 4-grams, within actions, that the correct one also contains; 0 if it has none.
        resemblance: Mean of ``prefix_share`` and ``overlap``, in [0, 1].
    """

    response: str
    displaced: str
    shared_prefix: int
    prefix_share: float
    overlap: float
    resemblance: float


def resembling(displaced: Sequence[Sampled], others: Sequence[Sampled], *, most: int) -> list[Resembling]:
    """Return the incorrect ``others`` of the same group as a displaced correct response, the most similar first."""
    pairs = [
        _compare(wrong, right)
        for right in displaced
        for wrong in others
        if right.correct and not wrong.correct and right.group is not None and right.group == wrong.group
    ]
    found = sorted((pair for pair in pairs if pair is not None), key=lambda pair: -pair.resemblance)
    return found[:most]


def closest(displaced: Sequence[Sampled], others: Sequence[Sampled]) -> list[Resembling]:
    """Return for each displaced correct response the most similar incorrect one of its group, in their order."""
    groups: defaultdict[tuple[int, ...] | None, list[Sampled]] = defaultdict(list)
    for other in others:
        groups[other.group].append(other)
    return [pair for right in displaced for pair in resembling([right], groups[right.group], most=1)]


def _compare(wrong: Sampled, right: Sampled) -> Resembling | None:
    if wrong.token_ids is None or right.token_ids is None:
        return None
    both = min(len(wrong.token_ids), len(right.token_ids))
    differs = np.flatnonzero(wrong.token_ids[:both] != right.token_ids[:both])
    prefix = int(differs[0]) if differs.size else both
    own = wrong.grams
    overlap = float(np.isin(own, right.grams, assume_unique=True).mean()) if own.size else 0.0
    share = prefix / both if both else 0.0
    return Resembling(
        response=wrong.id,
        displaced=right.id,
        shared_prefix=prefix,
        prefix_share=share,
        overlap=overlap,
        resemblance=(share + overlap) / 2,
    )
