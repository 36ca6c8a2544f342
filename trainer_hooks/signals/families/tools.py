"""Tool use: calls per response, the shares of valid calls and of empty answers, and whether the mask shows answers."""

from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

NAMES = (
    "tools/calls",
    "tools/none_frac",
    "tools/valid_frac",
    "tools/malformed_frac",
    "tools/empty_frac",
    "tools/unbroken_frac",
)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute calls per response, the share of valid calls, and the shares of responses without and with a bad call.

    The share of empty answers is over the valid calls of all responses. The unbroken share is over the responses with
    a valid call: in how many of them all action tokens are one action, as if the tool had answered nothing between
    two of them. The calls are what the trainer says; all else is read from the mask, so that only the two together
    can show that the mask counts feedback as actions.
    """
    library, rollouts = tokens.library, tokens.rollouts
    calls, valid, empty = rollouts.tool_calls, rollouts.tool_calls_valid, rollouts.tool_calls_empty
    if calls is None:
        return {}
    found = {"tools/calls": moments(library, calls), "tools/none_frac": moments(library, calls == 0)}
    if valid is not None:
        found["tools/valid_frac"] = share(valid.sum(), calls.sum())
        found["tools/malformed_frac"] = moments(library, valid < calls)
        actions = tokens.layout.sum_by_response(tokens.layout.action_lengths > 0)
        found["tools/unbroken_frac"] = moments(library, actions == 1, (valid > 0) & (actions > 0))
    if valid is not None and empty is not None:
        found["tools/empty_frac"] = share(empty.sum(), valid.sum())
    return found
