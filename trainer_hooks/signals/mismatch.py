"""Distance to other models that scored the same tokens: the inference engine's sampler and the reference policy."""

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import moments, observed
from trainer_hooks.wire import Moments, Summary

__all__ = ["NAMES", "mismatch"]

NAMES = ("mismatch/logprob_abs", "mismatch/kl", "kl/ref")
LARGEST_LOG_RATIO = 300.0


def mismatch(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the gap between trainer and sampler at the same weights, and the divergence from the reference.

    The trainer's side of the gap is ``old_logprobs`` where given: those have the sampler's weights, while
    ``logprobs`` may be updates further. Divergences are k3 estimators over sampled tokens, mean of w − 1 − ln w:
    KL(sampler ‖ trainer) with w = π_old / π_sampler, KL(π_θ ‖ π_ref) with w = π_ref / π_θ.
    """
    rollouts = tokens.rollouts
    summaries: dict[str, Summary | None] = {}
    if rollouts.sampler_logprobs is not None:
        trainer = tokens.logprobs if rollouts.old_logprobs is None else tokens.take(rollouts.old_logprobs)
        gap = trainer.astype(np.float64) - tokens.take(rollouts.sampler_logprobs)
        summaries["mismatch/logprob_abs"] = moments(np.abs(gap))
        summaries["mismatch/kl"] = _k3(gap)
    if rollouts.ref_logprobs is not None:
        summaries["kl/ref"] = _k3(tokens.take(rollouts.ref_logprobs).astype(np.float64) - tokens.logprobs)
    return observed(summaries)


def _k3(log_ratio: NDArray[np.floating]) -> Moments | None:
    return moments(np.exp(np.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)) - 1 - log_ratio)
