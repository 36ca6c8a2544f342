"""Token entropy of the policy: mean, tail, and action by action."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.likelihood import ACTIONS_SHOWN
from trainer_hooks.signals.reductions import bins, moments, observed
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "entropy"]

NAMES = ("entropy/mean", "entropy/p95", *(f"entropy/action{index}" for index in range(ACTIONS_SHOWN)))
# ln of the largest vocabularies (256,000 tokens) is 12.5 nat.
LARGEST_NATS = 12.8


def entropy(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the entropy of all responses' action tokens, in nats; nothing where the trainer has none."""
    if tokens.rollouts.entropies is None:
        return {}
    entropies = tokens.take(tokens.rollouts.entropies)
    by_action = {
        f"entropy/action{index}": moments(entropies[tokens.action == index])
        for index in range(min(ACTIONS_SHOWN, int(tokens.actions.max())))
    }
    return observed(
        by_action
        | {
            "entropy/mean": moments(entropies),
            "entropy/p95": bins(entropies, low=0.0, high=LARGEST_NATS, count=1024, quantile=0.95),
        }
    )
