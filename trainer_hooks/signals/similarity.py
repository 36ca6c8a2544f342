"""Incorrect responses that begin like correct ones: what makes negative gradients hurt (arXiv 2512.04220, Fig. 5)."""

import numpy as np

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import observed, share
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "similarity"]

NAMES = ("similarity/first_action_shared",)


def similarity(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the share of incorrect responses whose first feedback equals that of a correct one in their group.

    Only groups with both kinds of response on this rank count: the others have nothing to share.
    """
    feedback, groups, correct = tokens.rollouts.first_feedback, tokens.rollouts.group_ids, tokens.rollouts.correct
    if feedback is None or groups is None:
        return {}
    is_mixed = np.isin(groups, groups[correct]) & ~correct
    keys = np.stack([groups, feedback], axis=1)
    known = {tuple(key) for key in keys[correct & (feedback >= 0)].tolist()}
    shared = sum(tuple(key) in known for key in keys[is_mixed].tolist())
    return observed({"similarity/first_action_shared": share(shared, int(is_mixed.sum()))})
