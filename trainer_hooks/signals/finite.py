"""Non-finite numbers: data, and the first thing to know about a dying run."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, total

__all__ = ["NAMES", "finite"]

NAMES = ("finite/bad_values",)


def finite(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Count NaN and Inf in rewards, advantages, and whatever was given for action tokens."""
    rollouts, count = tokens.rollouts, tokens.library.count
    counted = count(tokens.counted)
    added_up = (tokens.logprob_sums, tokens.entropy_sums)
    bad = [counted - count(sums.known) for sums in added_up if sums is not None]
    others = (
        rollouts.old_logprobs,
        rollouts.sampler_logprobs,
        rollouts.ref_logprobs,
        rollouts.advantages,
        rollouts.rewards,
    )
    for array in others:
        if array is not None:
            values, where = tokens.observed(array)
            is_bad = ~tokens.xp.isfinite(values)
            bad.append(count(is_bad if where is None else is_bad & where))
    return {"finite/bad_values": total(*bad)}
