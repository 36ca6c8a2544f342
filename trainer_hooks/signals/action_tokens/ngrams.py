"""Hashes of the n-grams of token ids that lie within one action."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.tokens import ActionTokens

__all__ = ["ITEMS", "ITEM_BITS", "hash_ngrams"]

# An n-gram's hash is a polynomial in Knuth's multiplier, modulo 2⁴⁰. With the 32,000 n-grams of a long response, two
# different ones have the same hash once in 2,000 responses.
MULTIPLIER = 6364136223846793005
ITEM_BITS = 40
ITEMS = 1 << ITEM_BITS


def hash_ngrams(tokens: ActionTokens, ids: Array, length: int) -> tuple[Array, Array]:
    """Hash each n-gram, at the token where it begins.

    Args:
        tokens: The action tokens.
        ids: Their token ids, shape ``(N,)``.
        length: Tokens of an n-gram, a power of 2.

    Returns:
        The hashes, of which the lowest 40 bits count, and whether each n-gram lies within one action; both of shape
        ``(N − length + 1,)``, or ``(0,)`` where there are too few tokens.
    """
    layout, grams, width, power = tokens.layout, ids, 1, MULTIPLIER
    while width < length:
        grams = grams[:-width] * (power % ITEMS) + grams[width:]
        width, power = 2 * width, power * power
    action = tokens.xp.cumsum(layout.begins, axis=0)
    is_whole = action[length - 1 :] == action[: len(grams)]
    if layout.where is not None:
        is_whole = is_whole & layout.where[length - 1 :] & layout.where[: len(grams)]
    return grams, is_whole
