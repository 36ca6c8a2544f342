"""Incorrect responses that begin like correct ones: they make negative gradients harmful (arXiv 2512.04220, Fig. 5)."""

from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, share

__all__ = ["NAMES", "compute"]

NAMES = ("similarity/first_action_shared",)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the share of incorrect responses whose first feedback equals that of a correct one in their group.

    Only groups with both kinds of response on this rank count.
    """
    feedback, group, correct = tokens.rollouts.first_feedback, tokens.group, tokens.rollouts.is_correct
    if feedback is None or group is None:
        return {}
    sum_by, responses = tokens.library.sum_by, len(correct)
    has_correct = sum_by(correct, group, responses) > 0
    beginning = tokens.number_keys(group, feedback)
    is_known = sum_by(correct & (feedback >= 0), beginning, responses) > 0
    is_mixed = has_correct[group] & tokens.rollouts.is_incorrect
    return {"similarity/first_action_shared": share((is_known[beginning] & is_mixed).sum(), is_mixed.sum())}
