"""Lazy likelihood displacement: how the likelihood of kept responses changed, and how much LLDS would penalise.

These are computed whether or not the regulariser is in the loss. Equation numbers are those of arXiv 2512.04220.
"""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.sums import ActionSums
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, only_if, share

__all__ = ["NAMES", "compute"]

NAMES = (
    "displacement/self",
    "displacement/cross",
    "displacement/fell_frac",
    "lld/penalty_tokens_frac",
    "lld/gated_responses_frac",
    "lld/gated_actions_frac",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the change ln π_θ − ln π_old of the same tokens; nothing where no update lies between the two.

    ``displacement/self`` and ``/cross`` need `Rollouts.trained`. A trained batch drifts up even in failing runs, so the
    two must never be mixed.
    """
    changes = tokens.log_ratio_sums
    if changes is None:
        return {}
    found = _penalised_shares(tokens, changes)
    if tokens.group is not None:
        found["displacement/fell_frac"] = _share_of_fallen_questions(tokens, changes, tokens.group)
    if tokens.rollouts.trained is not None:
        name = "displacement/self" if tokens.rollouts.trained else "displacement/cross"
        found[name] = changes.moments(tokens.rollouts.is_correct[tokens.owner])
    return only_if(tokens.library, tokens.is_off_policy, found)


def _share_of_fallen_questions(tokens: ActionTokens, changes: ActionSums, group: Array) -> PendingSummary:
    """Compute the share of questions whose correct responses fell (eq. 3).

    Δ(x) = mean over correct responses of Σ_k (ln π_θ − ln π_old) < 0. Only questions with both correct and incorrect
    responses on this rank count.
    """
    rollouts, sum_by, responses = tokens.rollouts, tokens.library.sum_by, len(group)
    correct, incorrect = rollouts.is_correct, rollouts.is_incorrect
    is_mixed = (sum_by(correct, group, responses) > 0) & (sum_by(incorrect, group, responses) > 0)
    change = sum_by(tokens.xp.where(correct, changes.by_response, 0.0), group, responses)
    is_known = is_mixed & tokens.xp.isfinite(change)
    return share((is_known & (change < 0)).sum(), is_known.sum())


def _penalised_shares(tokens: ActionTokens, changes: ActionSums) -> dict[str, PendingSummary]:
    """Compute the share of the preserving set that the penalties act on, with d_k = ln π_old − ln π_θ.

    Tokens with d_k > 0 (LLD, eq. 4); responses with Σ_k d_k > 0 (LLDS, eq. 5); actions with Σ_k d_k > 0 (the action
    gate of v2).
    """
    is_preserved, count = tokens.is_preserved, tokens.library.count
    if is_preserved is None:
        return {}
    known, change = preserved = tokens.xp.where(is_preserved[tokens.owner], changes.table[:2], 0.0)
    fell = tokens.xp.where(is_preserved[tokens.owner], tokens.layout.actions.sum(changes.finite < 0), 0.0)
    response_known, response_change = tokens.layout.sum_by_response(preserved)
    return {
        "lld/penalty_tokens_frac": share(fell.sum(), known.sum()),
        "lld/gated_responses_frac": share(count(response_change < 0), count(response_known > 0)),
        "lld/gated_actions_frac": share(count(change < 0), count(known > 0)),
    }
