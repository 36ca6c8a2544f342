"""Counts non-finite numbers, which are data: they are often the first sign of a dying run."""

from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, total

__all__ = ["NAMES", "compute"]

NAMES = ("finite/bad_values",)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Count NaN and Inf in rewards, in advantages, and in everything that was given for action tokens."""
    rollouts, count = tokens.rollouts, tokens.library.count
    counted = count(tokens.layout.counted)
    summed = (tokens.logprob_sums, tokens.entropy_sums)
    bad = [counted - count(sums.known) for sums in summed if sums is not None]
    others = (rollouts.sampler_logprobs, rollouts.ref_logprobs, rollouts.advantages, rollouts.rewards)
    observed = [tokens.select_counted(array) for array in others if array is not None]
    if rollouts.old_logprobs is not None:
        observed.append((tokens.old_logprobs, tokens.layout.where))
    for values, where in observed:
        is_finite = tokens.xp.isfinite(values)
        bad.append(len(values) - count(is_finite) if where is None else counted - count(is_finite & where))
    return {"finite/bad_values": total(*bad)}
