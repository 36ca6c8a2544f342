"""Likelihood of correct and incorrect responses, whole and action by action."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import bins, moments, observed
from trainer_hooks.wire import Summary

__all__ = ["ACTIONS_SHOWN", "NAMES", "likelihood"]

# Tool-use runs take two to five actions; later ones are too rare at a step for a mean.
ACTIONS_SHOWN = 8
NAMES = (
    "likelihood/correct",
    "likelihood/incorrect",
    "likelihood/correct_seq",
    *(f"likelihood/action{index}" for index in range(ACTIONS_SHOWN)),
    "likelihood/p05",
)


def likelihood(tokens: ActionTokens) -> dict[str, Summary]:
    """Give per-token means, the mean of whole correct responses, and the unlikeliest twentieth, in nats."""
    logprobs, is_correct = tokens.logprobs, tokens.is_correct
    sums = tokens.per_response(logprobs)
    is_spoken = tokens.lengths > 0
    means = sums[is_spoken] / tokens.lengths[is_spoken]
    correct_logprobs, correct_actions = logprobs[is_correct], tokens.action[is_correct]
    by_action = {
        f"likelihood/action{index}": moments(correct_logprobs[correct_actions == index])
        for index in range(min(ACTIONS_SHOWN, int(tokens.actions.max())))
    }
    return observed(
        by_action
        | {
            "likelihood/correct": moments(correct_logprobs),
            "likelihood/incorrect": moments(logprobs[~is_correct]),
            "likelihood/correct_seq": moments(sums[tokens.rollouts.correct & is_spoken]),
            "likelihood/p05": bins(means, low=-16.0, high=0.0, count=1024, quantile=0.05),
        }
    )
