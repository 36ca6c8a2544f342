"""Likelihood of correct and incorrect responses, whole and action by action."""

from trainer_hooks.signals.action_tokens import ACTIONS_SHOWN, ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, bins, moments

__all__ = ["NAMES", "likelihood"]

NAMES = (
    "likelihood/correct",
    "likelihood/incorrect",
    "likelihood/correct_seq",
    *(f"likelihood/action{index}" for index in range(ACTIONS_SHOWN)),
    "likelihood/p05",
)


def likelihood(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give per-token means, the mean of whole correct responses, and the unlikeliest twentieth, in nats."""
    library, sums, is_correct = tokens.library, tokens.logprob_sums, tokens.rollouts.correct[tokens.owner]
    is_spoken = tokens.lengths > 0
    mean = sums.by_response / tokens.lengths
    return {
        **sums.by_action("likelihood/action", is_correct),
        "likelihood/correct": sums.moments(is_correct),
        "likelihood/incorrect": sums.moments(~is_correct),
        "likelihood/correct_seq": moments(library, sums.by_response, tokens.rollouts.correct & is_spoken),
        "likelihood/p05": bins(library, mean, is_spoken, low=-16.0, high=0.0, count=1024, quantile=0.05),
    }
