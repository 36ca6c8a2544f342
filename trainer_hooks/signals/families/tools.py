"""Tool use: calls per response, the share of valid calls, and responses without a call."""

from trainer_hooks.signals.actions.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

NAMES = ("tools/calls", "tools/none_frac", "tools/valid_frac", "tools/malformed_frac")


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute calls per response, the share of valid calls, and the shares of responses without and with a bad call."""
    library, calls, valid = tokens.library, tokens.rollouts.tool_calls, tokens.rollouts.tool_calls_valid
    if calls is None:
        return {}
    found = {"tools/calls": moments(library, calls), "tools/none_frac": moments(library, calls == 0)}
    if valid is not None:
        found["tools/valid_frac"] = share(valid.sum(), calls.sum())
        found["tools/malformed_frac"] = moments(library, valid < calls)
    return found
