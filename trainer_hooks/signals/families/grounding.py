"""Answers that repeat what the tool returned: their share falls to 0 before some collapses (arXiv 2605.26037)."""

from trainer_hooks.arrays import Array
from trainer_hooks.signals.action_tokens.ngrams import ITEM_BITS, ITEMS
from trainer_hooks.signals.action_tokens.tokens import ActionTokens
from trainer_hooks.signals.summary_builders import PendingSummary, moments

__all__ = ["NAMES", "compute"]

NAMES = ("tools/grounded_frac",)


def compute(tokens: ActionTokens) -> dict[str, PendingSummary]:
    """Compute the share of responses whose answer consists of tokens that the tool's feedback to them contains.

    Feedback is what lies between two actions of a response. Tokens of the protocol count neither in the answer nor in
    the feedback. A response without an answer, or without feedback, is not grounded.
    """
    rollouts, library, xp = tokens.rollouts, tokens.library, tokens.xp
    if rollouts.token_ids is None or rollouts.answer_mask is None:
        return {}
    responses = len(rollouts.rewards)
    before = xp.cumsum(rollouts.mask, axis=1)
    is_feedback = ~rollouts.mask & (before > 0) & (before < before[:, -1:])
    is_content = xp.ones_like(rollouts.mask)
    for number in rollouts.control_ids or ():
        is_content = is_content & (rollouts.token_ids != number)
    feedback, _, _ = _keys(tokens, is_feedback & is_content)
    answer, owner, is_answer = _keys(tokens, rollouts.answer_mask & is_content)
    nothing = xp.zeros_like(before[:1, 0]) - 1
    known = library.sort(xp.concat([nothing, feedback]))
    place = xp.searchsorted(known, answer).clip(0, len(known) - 1)
    answers = library.sum_by(is_answer, owner, responses)
    foreign = library.sum_by(is_answer & (known[place] != answer), owner, responses)
    return {"tools/grounded_frac": moments(library, (answers > 0) & (foreign == 0))}


def _keys(tokens: ActionTokens, chosen: Array) -> tuple[Array, Array, Array]:
    """Return a number for response and id of each chosen token, its response, and whether it is chosen.

    On the host only the chosen tokens are returned; on a device all are, and the others have the number −1.
    """
    places = tokens.library.select_places(chosen)
    is_chosen = chosen.reshape(-1)[places]
    owner = places // chosen.shape[1]
    ids = tokens.library.to_integers(tokens.rollouts.token_ids).reshape(-1)[places]
    return tokens.xp.where(is_chosen, (owner << ITEM_BITS) | (ids & (ITEMS - 1)), -1), owner, is_chosen
