"""Degenerate text, measured on token ids alone: repetition, variety, and the tokens of the protocol."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.ngrams import ITEM_BITS, ITEMS, hash_ngrams
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments, share

__all__ = ["NAMES", "compute"]

NAMES = ("text/repetition", "text/looping_frac", "text/distinct", "control/prob", "control/share")
# Shorter n-grams repeat in healthy prose, and longer ones miss short loops.
NGRAM = 4
# A response loops where more of its n-grams repeat earlier ones than do not.
LOOPING = 0.5


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the shares of repeated 4-grams and distinct tokens, of responses that loop, and of control tokens.

    An n-gram never spans tool feedback.
    """
    if tokens.rollouts.token_ids is None:
        return {}
    ids, library, xp = tokens.take(tokens.rollouts.token_ids), tokens.library, tokens.xp
    layout, lengths, responses = tokens.layout, tokens.lengths, len(tokens.lengths)
    grams, is_whole = hash_ngrams(tokens, ids, NGRAM)
    wholes = layout.sum_by_response((layout.action_lengths - NGRAM + 1).clip(0))
    # Tokens and n-grams are sorted together: n-grams as if they belonged to B further responses, and everything that
    # does not count as if it belonged to one more.
    owner = layout.response if layout.where is None else xp.where(layout.where, layout.response, 2 * responses)
    gram_owner = xp.where(is_whole, layout.response[: len(grams)] + responses, 2 * responses)
    keys = library.sort((xp.concat([owner, gram_owner]) << ITEM_BITS) | (xp.concat([ids, grams]) & (ITEMS - 1)))
    distinct = _count_distinct(tokens, keys, xp.concat([lengths, library.to_integers(wholes)]))
    repeated = 1 - distinct[responses:] / wholes
    found = {
        "text/distinct": moments(library, distinct[:responses] / lengths),
        "text/repetition": moments(library, repeated),
        "text/looping_frac": share(library.count(repeated > LOOPING), library.count(wholes > 0)),
    }
    if tokens.rollouts.control_ids is not None:
        is_control = xp.zeros_like(layout.counted)
        for number in tokens.rollouts.control_ids:
            is_control = is_control | (ids == number)
        is_control = is_control & layout.counted
        found["control/prob"] = moments(library, xp.exp(tokens.logprobs), is_control & tokens.logprob_sums.known)
        found["control/share"] = share(library.count(is_control), library.count(layout.counted))
    return found


def _count_distinct(tokens: ActionTokens, keys: Array, sizes: Array) -> Array:
    """Count the distinct values in consecutive parts of the sorted keys; ``sizes`` are the lengths of the parts."""
    is_first = keys[:1] == keys[:1]
    nothing = sizes[:1] < 0
    seen = tokens.xp.cumsum(tokens.xp.concat([nothing, is_first, keys[1:] != keys[:-1]]), axis=0)
    ends = tokens.xp.cumsum(sizes, axis=0)
    return tokens.library.to_float64(seen[ends] - seen[ends - sizes])
