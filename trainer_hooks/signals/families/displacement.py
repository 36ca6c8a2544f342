"""Lazy likelihood displacement: did the likelihood of what should be kept fall, and what would LLDS touch?

Whether or not the regulariser is in the loss; equation numbers are those of arXiv 2512.04220.
"""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_sums import ActionSums
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, only_if, share

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
    changes = tokens.log_ratio_sums
    if changes is None:
        return {}
    found = _touched(tokens, changes)
    if tokens.group is not None:
        found["displacement/fell_frac"] = _fell(tokens, changes, tokens.group)
    if tokens.rollouts.trained is not None:
        name = "displacement/self" if tokens.rollouts.trained else "displacement/cross"
        found[name] = changes.moments(tokens.rollouts.correct[tokens.owner])
    return only_if(tokens.library, tokens.is_off_policy, found)


def _fell(tokens: ActionTokens, changes: ActionSums, group: Array) -> PendingSummary:
    """Share of questions whose correct responses fell (eq. 3): Δ(x) = mean over correct of Σ_k ln π_θ − ln π_old < 0.

    Only questions with both correct and incorrect responses on this rank count.
    """
    correct, added, responses = tokens.rollouts.correct, tokens.library.added, len(group)
    is_mixed = (added(correct, group, responses) > 0) & (added(~correct, group, responses) > 0)
    mean_sign = added(tokens.xp.where(correct, changes.by_response, 0.0), group, responses)
    is_known = is_mixed & tokens.xp.isfinite(mean_sign)
    return share((is_known & (mean_sign < 0)).sum(), is_known.sum())


def _touched(tokens: ActionTokens, changes: ActionSums) -> dict[str, PendingSummary]:
    """Share of the preserving set that the penalties touch, d_k = ln π_old − ln π_θ.

    Tokens with d_k > 0 (LLD, eq. 4); responses with Σ_k d_k > 0 (LLDS, eq. 5); actions with Σ_k d_k > 0 (the action
    gate of v2).
    """
    is_preserved, count = tokens.is_preserved, tokens.library.count
    if is_preserved is None:
        return {}
    known, change = kept = tokens.xp.where(is_preserved[tokens.owner], changes.table[:2], 0.0)
    fell = tokens.xp.where(is_preserved[tokens.owner], tokens.actions.added(changes.finite < 0), 0.0)
    response_known, response_change = tokens.library.added(kept, tokens.owner, len(is_preserved))
    return {
        "lld/penalty_tokens_frac": share(fell.sum(), known.sum()),
        "lld/gated_responses_frac": share(count(response_change < 0), count(response_known > 0)),
        "lld/gated_actions_frac": share(count(change < 0), count(known > 0)),
    }
