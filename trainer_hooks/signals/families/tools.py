"""Tool use: calls a response makes, how many are valid, and responses that make none."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, moments, share

__all__ = ["NAMES", "tools"]

NAMES = ("tools/calls", "tools/none_frac", "tools/valid_frac", "tools/malformed_frac")


def tools(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give calls a response, the share of calls that are valid, of responses without a call, and with a bad one."""
    library, calls, valid = tokens.library, tokens.rollouts.tool_calls, tokens.rollouts.tool_calls_valid
    if calls is None:
        return {}
    found = {"tools/calls": moments(library, calls), "tools/none_frac": moments(library, calls == 0)}
    if valid is not None:
        found["tools/valid_frac"] = share(valid.sum(), calls.sum())
        found["tools/malformed_frac"] = moments(library, valid < calls)
    return found
