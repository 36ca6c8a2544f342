"""Token entropy of the policy: mean, upper tail, and mean of each action."""

from trainer_hooks.signals.action_tokens.layout import ACTIONS_SHOWN
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, bins

__all__ = ["NAMES", "compute"]

NAMES = ("entropy/mean", "entropy/p95", *(f"entropy/action{index}" for index in range(ACTIONS_SHOWN)))
# ln of the largest vocabularies (256,000 tokens) is 12.5 nat.
LARGEST_NATS = 12.8


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the entropy of the action tokens of all responses, in nats; nothing where no entropies are given."""
    entropies, sums = tokens.entropies, tokens.entropy_sums
    if entropies is None or sums is None:
        return {}
    return {
        **sums.by_action("entropy/action"),
        "entropy/mean": sums.moments(),
        "entropy/p95": bins(
            tokens.library, entropies, tokens.layout.where, low=0.0, high=LARGEST_NATS, count=1024, quantile=0.95
        ),
    }
