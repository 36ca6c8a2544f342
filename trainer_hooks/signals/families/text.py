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
ITEMS = 1 << ITEM_BITS


def text(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Give the share of repeated 4-grams and of distinct tokens, means over responses; and the control tokens'.

    An n-gram never spans tool feedback.
    """
    if tokens.rollouts.token_ids is None:
        return {}
    ids, library, xp = tokens.take(tokens.rollouts.token_ids), tokens.library, tokens.xp
    lengths, responses = tokens.lengths, len(tokens.lengths)
    grams, is_whole = _ngrams(tokens, ids)
    wholes = library.added((tokens.action_lengths - NGRAM + 1).clip(0), tokens.owner, responses)
    # Tokens and n-grams are sorted together, n-grams as those of further responses, what does not count as one more's.
    owner = tokens.response if tokens.where is None else xp.where(tokens.where, tokens.response, 2 * responses)
    gram_owner = xp.where(is_whole, tokens.response[: len(grams)] + responses, 2 * responses)
    keys = library.sorted((xp.concat([owner, gram_owner]) << ITEM_BITS) | (xp.concat([ids, grams]) & (ITEMS - 1)))
    distinct = _distinct(tokens, keys, xp.concat([lengths, library.integers(wholes)]))
    found = {
        "text/distinct": moments(library, distinct[:responses] / lengths),
        "text/repetition": moments(library, 1 - distinct[responses:] / wholes),
    }
    if tokens.rollouts.control_ids is not None:
        is_control = xp.zeros_like(tokens.counted)
        for number in tokens.rollouts.control_ids:
            is_control = is_control | (ids == number)
        is_control = is_control & tokens.counted
        found["control/prob"] = moments(library, xp.exp(tokens.logprobs), is_control)
        found["control/share"] = share(library.count(is_control), library.count(tokens.counted))
    return found


def _ngrams(tokens: ActionTokens, ids: Array) -> tuple[Array, Array]:
    """Give a hash of each n-gram at the token where it begins, and whether it lies in one action."""
    grams, width, power = ids, 1, MULTIPLIER
    while width < NGRAM:
        grams = grams[:-width] * (power % ITEMS) + grams[width:]
        width, power = 2 * width, power * power
    action = tokens.xp.cumsum(tokens.begins, axis=0)
    is_whole = action[NGRAM - 1 :] == action[: len(grams)]
    if tokens.where is not None:
        is_whole = is_whole & tokens.where[NGRAM - 1 :] & tokens.where[: len(grams)]
    return grams, is_whole


def _distinct(tokens: ActionTokens, keys: Array, sizes: Array) -> Array:
    """Count the distinct among as many sorted keys as each size says, one after the other."""
    is_first = keys[:1] == keys[:1]
    nothing = sizes[:1] < 0
    seen = tokens.xp.cumsum(tokens.xp.concat([nothing, is_first, keys[1:] != keys[:-1]]), axis=0)
    ends = tokens.xp.cumsum(sizes, axis=0)
    return tokens.library.wide(seen[ends] - seen[ends - sizes])
