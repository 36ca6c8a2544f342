r"""Finds the places of the answers of a sampled response among its tokens, which the wire does not contain.

If texts are sent, an answer is the text between ``<answer>`` and ``</answer>``, or in ``\boxed{...}``. Otherwise it is
the last of several actions, after which no feedback came: a search ends with its answer.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal

__all__ = ["AnswerSource", "find_answers"]

AnswerSource = Literal["tags", "last_action"]
# The pattern is possessive: each text is read once, whatever the model wrote.
TAGGED: Final = re.compile(
    r"<answer>.*?(?:</answer>|\Z)|\\boxed\{(?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+\}", re.DOTALL
)


def find_answers(
    actions: Sequence[Sequence[int]], pieces: Sequence[str] | None, *, is_cut: bool
) -> tuple[list[tuple[int, int]], AnswerSource | None]:
    """Return first token and token after the last of each answer, and the source; None: not observed.

    Args:
        actions: First token and token after the last of each action.
        pieces: The text of each token, if texts are sent.
        is_cut: Whether tokens are missing at the end.
    """
    if pieces is not None:
        found = [span for first, after in actions for span in _tagged_answers(pieces, first, after)]
        if found:
            return found, "tags"
    if len(actions) > 1 and not is_cut:
        first, after = actions[-1]
        return [(first, after)], "last_action"
    return [], None


def _tagged_answers(pieces: Sequence[str], first: int, after: int) -> list[tuple[int, int]]:
    """Return the answers within one action. A token that contains a part of an answer belongs to it."""
    starts = [0, *accumulate(len(piece) for piece in pieces[first:after])]
    return [
        (first + bisect_right(starts, match.start()) - 1, first + bisect_right(starts, match.end() - 1))
        for match in TAGGED.finditer("".join(pieces[first:after]))
    ]
