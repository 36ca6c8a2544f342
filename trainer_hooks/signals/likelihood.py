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
    library, logprobs, is_correct = tokens.library, tokens.logprobs, tokens.is_correct
    sums = tokens.per_response(logprobs)
    is_spoken = tokens.lengths > 0
    return {
        **tokens.by_action("likelihood/action", logprobs, is_correct),
        "likelihood/correct": moments(library, logprobs, is_correct),
        "likelihood/incorrect": moments(library, logprobs, tokens.counted & ~is_correct),
        "likelihood/correct_seq": moments(library, sums, tokens.rollouts.correct & is_spoken),
        "likelihood/p05": bins(
            library, sums / tokens.lengths, is_spoken, low=-16.0, high=0.0, count=1024, quantile=0.05
        ),
    }
