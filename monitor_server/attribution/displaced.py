"""The sampled responses, tokens and actions that carry the displacement."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from monitor_server.attribution.sampled_responses import Sampled

__all__ = ["Measure", "SampledAction", "Token", "displaced_responses", "sampled_actions", "tokens"]

LEAST_SHARE = 0.005  # a reader sees a smaller share as 0 %
LARGEST = 1e100  # sums of larger numbers overflow; such a number is not a measurement

Measure = Literal["displacement", "likelihood"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token id over all displaced responses: its part of their fall.

    Attributes:
        token_id: The id.
        text: Its text, if texts are sent.
        count: The number of times that it fell.
        fall: Σ of its falls, nats, ≤ 0.
        share: ``fall`` divided by that of all tokens.
    """

    token_id: int
    text: str | None
    count: int
    fall: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAction:
    """The first, second, ... action over sampled correct responses: mean displacement a token, nats."""

    action: int
    mean: float
    tokens: int


def displaced_responses(responses: Sequence[Sampled], *, most: int) -> tuple[Measure | None, list[Sampled]]:
    """Return the responses that fell most, and the measure that was used.

    They are correct ones by their mean displacement; if none of them fell, incorrect ones. If displacement was not
    observed, or is NaN in each, they are the correct ones of the lowest mean likelihood. The measure is None if nothing
    was sampled.
    """
    observed = [r for r in responses if r.mean_displacement is not None and not math.isnan(r.mean_displacement)]
    fell = [r for r in observed if (r.mean_displacement or 0.0) < 0.0]
    ranked = sorted(fell, key=lambda r: (not r.correct, r.mean_displacement))
    if observed:
        return "displacement", [r for r in ranked if r.correct == ranked[0].correct][:most]
    known = [r for r in responses if r.correct and not math.isnan(r.logprob)]
    return ("likelihood" if responses else None), sorted(known, key=lambda r: r.mean_logprob)[:most]


def tokens(responses: Sequence[Sampled], *, most: int) -> list[Token]:
    """Return the token ids that fell furthest, summed over these responses: the first, and others of 0.5 % or more."""
    falls: defaultdict[int, list[float]] = defaultdict(list)
    texts: dict[int, str] = {}
    for response in responses:
        if response.displacements is None or response.token_ids is None:
            continue
        for place, change in zip(response.spoken.tolist(), response.displacements.tolist(), strict=True):
            if -LARGEST < change < 0:
                number = int(response.token_ids[place])
                falls[number].append(change)
                if response.pieces is not None:
                    texts[number] = response.pieces[place]
    whole = sum(map(sum, falls.values()))
    ranked = sorted(falls.items(), key=lambda item: sum(item[1]))[:most]
    found = [
        Token(token_id=number, text=texts.get(number), count=len(own), fall=sum(own), share=sum(own) / whole)
        for number, own in ranked
    ]
    return found[:1] + [token for token in found[1:] if token.share >= LEAST_SHARE]


def sampled_actions(responses: Sequence[Sampled]) -> list[SampledAction]:
    """Return the mean displacement of each action over the correct responses in which it was kept."""
    sums: defaultdict[int, list[float]] = defaultdict(list)
    for response in responses:
        if not response.correct or response.displacements is None:
            continue
        known = np.isfinite(response.displacements)
        for action in range(len(response.actions)):
            own = response.displacements[known & (response.action_of == action)].astype(np.float64)
            sums[action] += own.tolist()
    return [
        SampledAction(action=action, mean=sum(own) / len(own), tokens=len(own))
        for action, own in sorted(sums.items())
        if own
    ]
