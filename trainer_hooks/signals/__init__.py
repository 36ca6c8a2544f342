"""Rollouts in, signals out; one module a family. Names and definitions in docs/signals.md.

Each family is a function from `ActionTokens` to summaries that merge over ranks, and says which names it can give.
A signal whose input is missing, or that cannot say anything, is absent.
"""

import numpy as np

from trainer_hooks.rollouts import Rollouts
from trainer_hooks.signals import (
    displacement,
    entropy,
    finite,
    length,
    likelihood,
    mismatch,
    ratio,
    reward,
    similarity,
    text,
    tools,
)
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "summarise"]

FAMILIES = {
    reward.reward: reward.NAMES,
    likelihood.likelihood: likelihood.NAMES,
    entropy.entropy: entropy.NAMES,
    displacement.displacement: displacement.NAMES,
    ratio.ratio: ratio.NAMES,
    mismatch.mismatch: mismatch.NAMES,
    length.length: length.NAMES,
    tools.tools: tools.NAMES,
    text.text: text.NAMES,
    similarity.similarity: similarity.NAMES,
    finite.finite: finite.NAMES,
}
NAMES = tuple(name for names in FAMILIES.values() for name in names)


def summarise(rollouts: Rollouts) -> dict[str, Summary]:
    """Give every signal that these rollouts allow, as summaries that merge exactly over ranks.

    Args:
        rollouts: This rank's responses of the step.

    Returns:
        Summaries by signal name; each name is one of `NAMES`.
    """
    tokens = ActionTokens.of(rollouts)
    summaries: dict[str, Summary] = {}
    # NaN, Inf and empty actions are ordinary here, and numpy would warn of each.
    with np.errstate(all="ignore"):
        for family in FAMILIES:
            summaries |= family(tokens)
    return summaries
