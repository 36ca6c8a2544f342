"""Degenerate text, measured on token ids alone: repetition, variety, and the tokens of the protocol."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.response_actions.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

NAMES = ("text/repetition", "text/distinct", "control/prob", "control/share")
# Shorter n-grams repeat in healthy prose, and longer ones miss short loops.
NGRAM = 4
# An n-gram's hash is a polynomial in Knuth's multiplier, modulo 2⁴⁰. With the 32,000 n-grams of a long response, two
# different ones have the same hash once in 2,000 responses.
MULTIPLIER = 6364136223846793005
ITEM_BITS = 40
ITEMS = 1 << ITEM_BITS


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the shares of repeated 4-grams and distinct tokens, as means over responses, and of control tokens.

    An n-gram never spans tool feedback.
    """
    if tokens.rollouts.token_ids is None:
        return {}
    ids, library, xp = tokens.take(tokens.rollouts.token_ids), tokens.library, tokens.xp
    layout, lengths, responses = tokens.layout, tokens.lengths, len(tokens.lengths)
    grams, is_whole = _ngrams(tokens, ids)
    wholes = layout.sum_by_response((layout.action_lengths - NGRAM + 1).clip(0))
    # Tokens and n-grams are sorted together: n-grams as if they belonged to B further responses, and everything that
    # does not count as if it belonged to one more.
    owner = layout.response if layout.where is None else xp.where(layout.where, layout.response, 2 * responses)
    gram_owner = xp.where(is_whole, layout.response[: len(grams)] + responses, 2 * responses)
    keys = library.sort((xp.concat([owner, gram_owner]) << ITEM_BITS) | (xp.concat([ids, grams]) & (ITEMS - 1)))
    distinct = _count_distinct(tokens, keys, xp.concat([lengths, library.to_integers(wholes)]))
    found = {
        "text/distinct": moments(library, distinct[:responses] / lengths),
        "text/repetition": moments(library, 1 - distinct[responses:] / wholes),
    }
    if tokens.rollouts.control_ids is not None:
        is_control = xp.zeros_like(layout.counted)
        for number in tokens.rollouts.control_ids:
            is_control = is_control | (ids == number)
        is_control = is_control & layout.counted
        found["control/prob"] = moments(library, xp.exp(tokens.logprobs), is_control)
        found["control/share"] = share(library.count(is_control), library.count(layout.counted))
    return found


def _ngrams(tokens: ActionTokens, ids: Array) -> tuple[Array, Array]:
    """Return a hash of each n-gram, at the token where it begins, and whether it lies within one action."""
    layout, grams, width, power = tokens.layout, ids, 1, MULTIPLIER
    while width < NGRAM:
        grams = grams[:-width] * (power % ITEMS) + grams[width:]
        width, power = 2 * width, power * power
    action = tokens.xp.cumsum(layout.begins, axis=0)
    is_whole = action[NGRAM - 1 :] == action[: len(grams)]
    if layout.where is not None:
        is_whole = is_whole & layout.where[NGRAM - 1 :] & layout.where[: len(grams)]
    return grams, is_whole


def _count_distinct(tokens: ActionTokens, keys: Array, sizes: Array) -> Array:
    """Count the distinct values in consecutive parts of the sorted keys; ``sizes`` are the lengths of the parts."""
    is_first = keys[:1] == keys[:1]
    nothing = sizes[:1] < 0
    seen = tokens.xp.cumsum(tokens.xp.concat([nothing, is_first, keys[1:] != keys[:-1]]), axis=0)
    ends = tokens.xp.cumsum(sizes, axis=0)
    return tokens.library.to_float64(seen[ends] - seen[ends - sizes])
