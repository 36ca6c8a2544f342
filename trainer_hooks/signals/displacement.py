"""Lazy likelihood displacement: did the likelihood of what should be kept fall, and what would LLDS touch?

Whether or not the regulariser is in the loss; equation numbers are those of arXiv 2512.04220.
"""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, moments, only_if, share

__all__ = ["NAMES", "displacement"]

NAMES = (
    "displacement/self",
    "displacement/cross",
    "displacement/fell_frac",
    "lld/penalty_tokens_frac",
    "lld/gated_responses_frac",
    "lld/gated_actions_frac",
)


def displacement(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the change ln π_θ − ln π_old of the same tokens; nothing where no update lies between the two.

    ``displacement/self`` and ``/cross`` need `Rollouts.trained`: a trained batch drifts up even in failing runs, so
    the two must never be mixed.
    """
    log_ratio = tokens.log_ratio
    if log_ratio is None:
        return {}
    found = _touched(tokens, -log_ratio)
    if tokens.group is not None:
        found["displacement/fell_frac"] = _fell(tokens, log_ratio, tokens.group)
    if tokens.rollouts.trained is not None:
        name = "displacement/self" if tokens.rollouts.trained else "displacement/cross"
        found[name] = moments(tokens.library, log_ratio, tokens.is_correct)
    return only_if(tokens.is_off_policy, found)


def _fell(tokens: ActionTokens, log_ratio: Array, group: Array) -> PendingSummary:
    """Share of questions whose correct responses fell (eq. 3): Δ(x) = mean over correct of Σ_k ln π_θ − ln π_old < 0.

    Only questions with both correct and incorrect responses on this rank count.
    """
    correct, added, responses = tokens.rollouts.correct, tokens.library.added, len(group)
    is_mixed = (added(correct, group, responses) > 0) & (added(~correct, group, responses) > 0)
    change = tokens.xp.where(correct, tokens.per_response(log_ratio), 0.0)
    mean_sign = added(change, group, responses)
    is_known = is_mixed & tokens.xp.isfinite(mean_sign)
    return share((is_known & (mean_sign < 0)).sum(), is_known.sum())


def _touched(tokens: ActionTokens, fall: Array) -> dict[str, PendingSummary]:
    """Share of the preserving set that the penalties touch, d_k = ln π_old − ln π_θ.

    Tokens with d_k > 0 (LLD, eq. 4); responses with Σ_k d_k > 0 (LLDS, eq. 5); actions with Σ_k d_k > 0 (the action
    gate of v2).
    """
    is_preserved, count = tokens.is_preserved, tokens.library.count
    if is_preserved is None:
        return {}
    kept = is_preserved[tokens.response] & tokens.xp.isfinite(fall) & tokens.counted
    falls = tokens.library.kept(fall, kept)
    return {
        "lld/penalty_tokens_frac": share(count(falls > 0), count(kept)),
        "lld/gated_responses_frac": share(count(tokens.per_response(falls) > 0), count(tokens.per_response(kept) > 0)),
        "lld/gated_actions_frac": share(count(tokens.per_action(falls) > 0), count(tokens.per_action(kept) > 0)),
    }
