"""Lazy likelihood displacement: did the likelihood of what should be kept fall, and what would LLDS touch?

Whether or not the regulariser is in the loss; equation numbers are those of arXiv 2512.04220.
"""

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import moments, observed, share
from trainer_hooks.wire import Moments, Summary

__all__ = ["NAMES", "displacement"]

NAMES = (
    "displacement/self",
    "displacement/cross",
    "displacement/fell_frac",
    "lld/penalty_tokens_frac",
    "lld/gated_responses_frac",
    "lld/gated_actions_frac",
)


def displacement(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the change ln π_θ − ln π_old of the same tokens; nothing where no update lies between the two.

    ``displacement/self`` and ``/cross`` need `Rollouts.trained`: a trained batch drifts up even in failing runs, so
    the two must never be mixed.
    """
    log_ratio = tokens.log_ratio
    if log_ratio is None:
        return {}
    summaries: dict[str, Summary | None] = {"displacement/fell_frac": _fell(tokens, log_ratio)}
    if tokens.rollouts.trained is not None:
        name = "displacement/self" if tokens.rollouts.trained else "displacement/cross"
        summaries[name] = moments(log_ratio[tokens.is_correct])
    return observed(summaries | _touched(tokens, -log_ratio))


def _fell(tokens: ActionTokens, log_ratio: NDArray[np.float64]) -> Moments | None:
    """Share of questions whose correct responses fell (eq. 3): Δ(x) = mean over correct of Σ_k ln π_θ − ln π_old < 0.

    Only questions with both correct and incorrect responses on this rank count.
    """
    groups, correct = tokens.rollouts.group_ids, tokens.rollouts.correct
    if groups is None:
        return None
    _, group = np.unique(groups, return_inverse=True)
    change = tokens.per_response(log_ratio)
    is_mixed = (np.bincount(group, weights=correct) > 0) & (np.bincount(group, weights=~correct) > 0)
    mean_sign = np.bincount(group[correct], weights=change[correct], minlength=len(is_mixed))[is_mixed]
    known = mean_sign[np.isfinite(mean_sign)]
    return share(int(np.count_nonzero(known < 0)), known.size)


def _touched(tokens: ActionTokens, fall: NDArray[np.float64]) -> dict[str, Moments | None]:
    """Share of the preserving set that the penalties touch, d_k = ln π_old − ln π_θ.

    Tokens with d_k > 0 (LLD, eq. 4); responses with Σ_k d_k > 0 (LLDS, eq. 5); actions with Σ_k d_k > 0 (the action
    gate of v2).
    """
    is_preserved = tokens.is_preserved
    if is_preserved is None:
        return {}
    kept = is_preserved[tokens.response] & np.isfinite(fall)
    falls = np.where(kept, fall, 0.0)
    responses = np.bincount(tokens.response, weights=kept) > 0
    actions = tokens.per_action(kept.astype(np.float64)) > 0
    return {
        "lld/penalty_tokens_frac": share(int(np.count_nonzero(falls > 0)), int(kept.sum())),
        "lld/gated_responses_frac": share(int(np.count_nonzero(tokens.per_response(falls) > 0)), int(responses.sum())),
        "lld/gated_actions_frac": share(int(np.count_nonzero(tokens.per_action(falls) > 0)), int(actions.sum())),
    }
