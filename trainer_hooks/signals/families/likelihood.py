"""Likelihood of correct and incorrect responses, of whole responses, and of each action."""

from trainer_hooks.signals.action_tokens.layout import ACTIONS_SHOWN
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, bins, moments

__all__ = ["NAMES", "compute"]

NAMES = (
    "likelihood/correct",
    "likelihood/incorrect",
    "likelihood/correct_seq",
    *(f"likelihood/action{index}" for index in range(ACTIONS_SHOWN)),
    "likelihood/p05",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute means per token, the mean of whole correct responses, and the 5th percentile of responses, in nats."""
    library, sums, rollouts = tokens.library, tokens.logprob_sums, tokens.rollouts
    is_correct, is_incorrect = rollouts.is_correct[tokens.owner], rollouts.is_incorrect[tokens.owner]
    has_action = tokens.lengths > 0
    mean = sums.by_response / tokens.lengths
    return {
        **sums.by_action("likelihood/action", is_correct),
        "likelihood/correct": sums.moments(is_correct),
        "likelihood/incorrect": sums.moments(is_incorrect),
        "likelihood/correct_seq": moments(library, sums.by_response, rollouts.is_correct & has_action),
        "likelihood/p05": bins(library, mean, has_action, low=-16.0, high=0.0, count=1024, quantile=0.05),
    }
