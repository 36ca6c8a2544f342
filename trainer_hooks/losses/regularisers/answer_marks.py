"""Finds the tokens of the final answer by the text around it: LLDS-MA leaves them out of its penalty (eq. 6)."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["AnswerMarks"]

logger = logging.getLogger("trainer_hooks")

ENOUGH_RESPONSES = 100
"""Responses without a mark after which a warning is logged: an untrained policy may omit the mark at first."""

# Stands for each token outside actions. No mark contains it, so no mark is found across feedback.
FEEDBACK = "\0"


class AnswerMarks:
    """Finds the last answer of each response between two marks.

    Marks are searched in the joined text of the tokens, so the tokenizer may split them in any way; a token that holds
    part of a mark belongs to the answer. An answer that is not closed extends to the end of the response. One warning
    is logged where a mark has not appeared in the first 100 responses.

    Args:
        decode: Gives the text of token ids, as a tokenizer's ``decode`` does.
        begin: Text that opens the answer, such as ``<answer>``.
        end: Text that closes it, such as ``</answer>``.
    """

    def __init__(self, decode: Callable[[list[int]], str], begin: str, end: str) -> None:
        self._decode = decode
        self._begin = begin
        self._end = end
        self._pieces: dict[int, str] = {}
        self._unseen = [begin, end]
        self._responses = 0

    def mask(self, token_ids: Tensor, actions: Tensor) -> Tensor:
        """Find the tokens of the answers, their marks included.

        Args:
            token_ids: Shape ``(B, T)``.
            actions: True on action tokens, shape ``(B, T)``, bool; no other token is looked at.

        Returns:
            True on action tokens of the answer, shape ``(B, T)``, bool.
        """
        rows = [
            [self._piece(token) if is_action else FEEDBACK for token, is_action in zip(*row, strict=True)]
            for row in zip(token_ids.tolist(), actions.tolist(), strict=True)
        ]
        self._record_marks(rows)
        found = torch.tensor([self._answer(row) for row in rows], dtype=torch.bool, device=token_ids.device)
        return found & actions

    def _piece(self, token: int) -> str:
        """Return the text of a token inside a text: many tokenizers strip the space of a first token."""
        if token not in self._pieces:
            self._pieces[token] = self._decode([token, token])[len(self._decode([token])) :]
        return self._pieces[token]

    def _answer(self, pieces: list[str]) -> list[bool]:
        text = "".join(pieces)
        first = text.rfind(self._begin)
        if first < 0:
            return [False] * len(pieces)
        closing = text.find(self._end, first + len(self._begin))
        last = len(text) if closing < 0 else closing + len(self._end)
        marked, place = [], 0
        for piece in pieces:
            marked.append(place < last and place + len(piece) > first)
            place += len(piece)
        return marked

    def _record_marks(self, rows: list[list[str]]) -> None:
        """Record which marks were seen, and log a warning for those that were not."""
        if not self._unseen:
            return
        self._responses += len(rows)
        self._unseen = [mark for mark in self._unseen if not any(mark in "".join(row) for row in rows)]
        if self._unseen and self._responses >= ENOUGH_RESPONSES:
            logger.warning(
                "LLDS-MA is plain LLDS where it finds no answer: %s was in none of %d responses; give "
                "llds_answer_begin and llds_answer_end as the model writes them",
                " and ".join(map(repr, self._unseen)),
                self._responses,
            )
            self._unseen = []
