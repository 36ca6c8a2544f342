"""Degenerate text, seen on token ids alone: repetition, variety, and the protocol's own tokens."""

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import moments, observed, share
from trainer_hooks.wire import Summary

__all__ = ["NAMES", "text"]

NAMES = ("text/repetition", "text/distinct", "control/prob", "control/share")
# Shorter runs repeat in healthy prose, longer ones miss short loops.
NGRAM = 4


def text(tokens: ActionTokens) -> dict[str, Summary]:
    """Give the share of repeated 4-grams and of distinct tokens, means over responses; and the control tokens'.

    An n-gram never spans tool feedback.
    """
    if tokens.rollouts.token_ids is None:
        return {}
    ids = tokens.take(tokens.rollouts.token_ids)
    grams, response = _ngrams(ids, tokens)
    repetition = 1 - _distinct_share(grams, response, len(tokens.lengths))
    summaries: dict[str, Summary | None] = {
        "text/repetition": moments(repetition),
        "text/distinct": moments(_distinct_share(ids, tokens.response, len(tokens.lengths))),
    }
    if tokens.rollouts.control_ids is not None:
        is_control = np.isin(ids, tokens.rollouts.control_ids)
        summaries["control/prob"] = moments(np.exp(tokens.logprobs[is_control]))
        summaries["control/share"] = share(int(is_control.sum()), ids.size)
    return observed(summaries)


def _ngrams(ids: NDArray[np.int64], tokens: ActionTokens) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Give a hash of each n-gram within one action, and its response."""
    if ids.size < NGRAM:
        return ids[:0], tokens.response[:0]
    # A polynomial modulo 2⁶⁴ by Knuth's multiplier: collisions within a response are rarer than bit errors.
    grams = np.zeros(ids.size - NGRAM + 1, dtype=np.uint64)
    for offset in range(NGRAM):
        grams = grams * np.uint64(6364136223846793005) + ids[offset : ids.size - NGRAM + 1 + offset].astype(np.uint64)
    last = NGRAM - 1
    is_whole = tokens.segment[last:] == tokens.segment[: ids.size - last]
    return grams[is_whole].view(np.int64), tokens.response[: ids.size - last][is_whole]


def _distinct_share(items: NDArray[np.int64], response: NDArray[np.intp], responses: int) -> NDArray[np.float64]:
    """Give distinct items over items for each response, NaN for a response without any."""
    order = np.lexsort((items, response))
    items, response = items[order], response[order]
    is_new = np.ones(items.size, dtype=np.bool_)
    is_new[1:] = (items[1:] != items[:-1]) | (response[1:] != response[:-1])
    return np.bincount(response[is_new], minlength=responses) / np.bincount(response, minlength=responses)
