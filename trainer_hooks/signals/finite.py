"""Non-finite numbers: data, and the first thing to know about a dying run."""

import numpy as np

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.wire import Moments, Summary

__all__ = ["NAMES", "finite"]

NAMES = ("finite/bad_values",)


def finite(tokens: ActionTokens) -> dict[str, Summary]:
    """Count NaN and Inf in rewards, advantages, and whatever was given for action tokens."""
    rollouts = tokens.rollouts
    given = (
        rollouts.logprobs,
        rollouts.old_logprobs,
        rollouts.sampler_logprobs,
        rollouts.ref_logprobs,
        rollouts.entropies,
        rollouts.advantages,
        rollouts.rewards,
    )
    counted = [tokens.observed(array) for array in given if array is not None]
    bad = sum(int(array.size - np.count_nonzero(np.isfinite(array))) for array in counted)
    return {"finite/bad_values": Moments(count=1, sum=float(bad), statistic="sum")}
