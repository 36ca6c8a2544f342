"""Derives which tokens of a response the policy wrote from the token ids alone, without the trainer's mask."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["TurnGrammar"]


@dataclass(frozen=True, kw_only=True)
class TurnGrammar:
    """What divides a response into the policy's turns and the tokens of others between them.

    Attributes:
        ends: Ids with which the policy ends a turn, such as the end of text; the id itself is the policy's.
        resumes: Ids after which, in this order, the policy writes again: the beginning of its turn in a chat template,
            or the closing tag of feedback. Empty where a response has a single turn.
        padding: Id with which responses are padded at their end, if one is.
        longest_turn: The number of tokens after which a turn ends without an id of ``ends``, if there is one.

    >>> TurnGrammar(ends={1}, padding=0).mask_of([7, 8, 1, 0, 0])
    [True, True, True, False, False]
    >>> TurnGrammar(ends={1}, resumes=(5, 6)).mask_of([7, 1, 9, 5, 6, 8])
    [True, True, False, False, False, True]
    """

    ends: Collection[int]
    resumes: Sequence[int] = ()
    padding: int | None = None
    longest_turn: int | None = None

    def mask_of(self, tokens: Sequence[int]) -> list[bool]:
        """Return for each token of a response, without its prompt, whether the policy wrote it."""
        length = len(tokens)
        if self.padding is not None and self.padding not in self.ends:
            while length and tokens[length - 1] == self.padding:
                length -= 1
        resumes, turn = list(self.resumes), 0
        is_written, found = True, list[bool]()
        for place, token in enumerate(tokens):
            found.append(is_written and place < length)
            if is_written:
                turn += 1
                is_written = token not in self.ends and turn != self.longest_turn
            elif resumes and list(tokens[max(0, place + 1 - len(resumes)) : place + 1]) == resumes:
                is_written, turn = True, 0
        return found
