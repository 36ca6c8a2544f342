"""The distance to other models that scored the same tokens: the inference engine's sampler and the reference policy."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, find_ratios, k3, moments

__all__ = ["NAMES", "compute"]

NAMES = ("mismatch/logprob_abs", "mismatch/kl", "kl/ref")


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the gap between trainer and sampler at the same weights, and the divergence from the reference.

    Divergences are k3 estimators over sampled tokens, mean of w − 1 − ln w: KL(sampler ‖ trainer) with
    w = π_trainer / π_sampler (`ActionTokens.mismatch`), KL(π_θ ‖ π_ref) with w = π_ref / π_θ.
    """
    rollouts, to_float64 = tokens.rollouts, tokens.library.to_float64
    found = {}
    if tokens.mismatch is not None:
        found["mismatch/logprob_abs"] = moments(tokens.library, abs(tokens.mismatch), tokens.layout.where)
        found["mismatch/kl"] = _k3(tokens, tokens.mismatch)
    if rollouts.ref_logprobs is not None:
        found["kl/ref"] = _k3(tokens, to_float64(tokens.take(rollouts.ref_logprobs)) - tokens.logprobs)
    return found


def _k3(tokens: ActionTokens, log_ratio: Array) -> PendingSummary:
    return k3(tokens.library, find_ratios(tokens.library, log_ratio), log_ratio, tokens.layout.where)
