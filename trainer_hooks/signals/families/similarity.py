"""Incorrect responses that begin like correct ones: what makes negative gradients hurt (arXiv 2512.04220, Fig. 5)."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, share

__all__ = ["NAMES", "similarity"]

NAMES = ("similarity/first_action_shared",)


def similarity(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the share of incorrect responses whose first feedback equals that of a correct one in their group.

    Only groups with both kinds of response on this rank count: the others have nothing to share.
    """
    feedback, group, correct = tokens.rollouts.first_feedback, tokens.group, tokens.rollouts.correct
    if feedback is None or group is None:
        return {}
    added, responses = tokens.library.added, len(correct)
    has_correct = added(correct, group, responses) > 0
    beginning = tokens.numbered(group, feedback)
    is_known = added(correct & (feedback >= 0), beginning, responses) > 0
    is_mixed = has_correct[group] & ~correct
    return {"similarity/first_action_shared": share((is_known[beginning] & is_mixed).sum(), is_mixed.sum())}
