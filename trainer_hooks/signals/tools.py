"""Tool use: calls a response makes, how many are valid, and responses that make none."""

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import moments, observed, share
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "tools"]

NAMES = ("tools/calls", "tools/none_frac", "tools/valid_frac", "tools/malformed_frac")


def tools(tokens: ActionTokens) -> dict[str, Summary]:
    """Give calls a response, the share of calls that are valid, of responses without a call, and with a bad one."""
    calls, valid = tokens.rollouts.tool_calls, tokens.rollouts.tool_calls_valid
    if calls is None:
        return {}
    summaries: dict[str, Summary | None] = {"tools/calls": moments(calls), "tools/none_frac": moments(calls == 0)}
    if valid is not None:
        summaries["tools/valid_frac"] = share(int(valid.sum()), int(calls.sum()))
        summaries["tools/malformed_frac"] = moments(valid < calls)
    return observed(summaries)
