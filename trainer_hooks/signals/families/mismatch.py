"""Distance to other models that scored the same tokens: the inference engine's sampler and the reference policy."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.response_actions.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments

__all__ = ["NAMES", "compute"]

NAMES = ("mismatch/logprob_abs", "mismatch/kl", "kl/ref")
LARGEST_LOG_RATIO = 300.0


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the gap between trainer and sampler at the same weights, and the divergence from the reference.

    The trainer's side of the gap is ``old_logprobs`` where given. Those have the sampler's weights, while ``logprobs``
    may be some updates further. Divergences are k3 estimators over sampled tokens, mean of w − 1 − ln w:
    KL(sampler ‖ trainer) with w = π_old / π_sampler, KL(π_θ ‖ π_ref) with w = π_ref / π_θ.
    """
    rollouts, to_float64 = tokens.rollouts, tokens.library.to_float64
    found = {}
    if rollouts.sampler_logprobs is not None:
        trainer = tokens.logprobs if rollouts.old_logprobs is None else to_float64(tokens.take(rollouts.old_logprobs))
        gap = trainer - to_float64(tokens.take(rollouts.sampler_logprobs))
        found["mismatch/logprob_abs"] = moments(tokens.library, abs(gap), tokens.layout.where)
        found["mismatch/kl"] = _k3(tokens, gap)
    if rollouts.ref_logprobs is not None:
        found["kl/ref"] = _k3(tokens, to_float64(tokens.take(rollouts.ref_logprobs)) - tokens.logprobs)
    return found


def _k3(tokens: ActionTokens, log_ratio: Array) -> PendingSummary:
    ratio = tokens.xp.exp(log_ratio.clip(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    return moments(tokens.library, ratio - 1 - log_ratio, tokens.layout.where)
