"""Token entropy of the policy: mean, tail, and action by action."""

from trainer_hooks.signals.action_tokens import ACTIONS_SHOWN, ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, bins

__all__ = ["NAMES", "entropy"]

NAMES = ("entropy/mean", "entropy/p95", *(f"entropy/action{index}" for index in range(ACTIONS_SHOWN)))
# ln of the largest vocabularies (256,000 tokens) is 12.5 nat.
LARGEST_NATS = 12.8


def entropy(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the entropy of all responses' action tokens, in nats; nothing where the trainer has none."""
    entropies, sums = tokens.entropies, tokens.entropy_sums
    if entropies is None or sums is None:
        return {}
    return {
        **sums.by_action("entropy/action"),
        "entropy/mean": sums.moments(),
        "entropy/p95": bins(
            tokens.library, entropies, tokens.where, low=0.0, high=LARGEST_NATS, count=1024, quantile=0.95
        ),
    }
