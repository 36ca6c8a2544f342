"""Degenerate text, seen on token ids alone: repetition, variety, and the protocol's own tokens."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens import ActionTokens
from trainer_hooks.signals.reductions import PendingSummary, moments, share

__all__ = ["NAMES", "text"]

NAMES = ("text/repetition", "text/distinct", "control/prob", "control/share")
# Shorter runs repeat in healthy prose, longer ones miss short loops.
NGRAM = 4
# N-grams are told apart by a polynomial in Knuth's multiplier, modulo 2⁴⁰: of the 32,000 in a long response two
# different ones look alike once in 2,000 responses.
MULTIPLIER = 6364136223846793005
ITEM_BITS = 40


def text(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the share of repeated 4-grams and of distinct tokens, means over responses; and the control tokens'.

    An n-gram never spans tool feedback.
    """
    if tokens.rollouts.token_ids is None:
        return {}
    ids, library, xp = tokens.take(tokens.rollouts.token_ids), tokens.library, tokens.xp
    found = {"text/distinct": moments(library, _distinct(tokens, ids, tokens.response, tokens.where) / tokens.lengths)}
    if len(ids) >= NGRAM:
        whole = library.added((tokens.action_lengths - NGRAM + 1).clip(0), tokens.owner, len(tokens.lengths))
        found["text/repetition"] = moments(library, 1 - _distinct(tokens, *_ngrams(tokens, ids)) / whole)
    if tokens.rollouts.control_ids is not None:
        is_control = xp.zeros_like(tokens.counted)
        for number in tokens.rollouts.control_ids:
            is_control = is_control | (ids == number)
        is_control = is_control & tokens.counted
        found["control/prob"] = moments(library, xp.exp(tokens.logprobs), is_control)
        found["control/share"] = share(library.count(is_control), library.count(tokens.counted))
    return found


def _ngrams(tokens: ActionTokens, ids: Array) -> tuple[Array, Array, Array]:
    """Give a hash at each token of the n-gram that begins there, its response, and whether it lies in one action."""
    count, last = len(ids) - NGRAM + 1, NGRAM - 1
    grams = ids[:count]
    for offset in range(1, NGRAM):
        grams = grams * MULTIPLIER + ids[offset : count + offset]
    action = tokens.xp.cumsum(tokens.begins, axis=0)
    is_whole = action[last:] == action[:count]
    if tokens.where is not None:
        is_whole = is_whole & tokens.where[last:] & tokens.where[:count]
    return grams, tokens.response[:count], is_whole


def _distinct(tokens: ActionTokens, items: Array, response: Array, where: Array | None) -> Array:
    """Count each response's distinct items."""
    library, responses = tokens.library, len(tokens.lengths)
    # What does not count goes to a response of its own, after the others.
    owner = response if where is None else tokens.xp.where(where, response, responses)
    keys = library.sorted((owner << ITEM_BITS) | (items & ((1 << ITEM_BITS) - 1)))
    owner = keys >> ITEM_BITS
    is_first = keys[:1] == keys[:1]
    is_new = tokens.xp.concat([is_first, keys[1:] != keys[:-1]])
    runs = library.runs(tokens.xp.concat([is_first, owner[1:] != owner[:-1]]))
    return library.added(runs.added(is_new), runs.first(owner), responses + 1)[:responses]
