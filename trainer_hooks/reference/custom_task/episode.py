"""The rules of an episode in plain text: where an action ends, its query or answer, and its reward.

An action ends with ``</search>``, ``</answer>`` or the end-of-text token, or at its token limit. A search is answered
by the tool, an answer ends the episode, any other action gets feedback that it is invalid.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trainer_hooks.reference.custom_task.exact_match import exact_match
from trainer_hooks.reference.custom_task.questions import TextQuestion

__all__ = ["TAGS", "EpisodeRules", "SearchEpisode"]

TAGS = ("<think>", "</think>", "<search>", "</search>", "<information>", "</information>", "<answer>", "</answer>")

_ACTION = re.compile(r"<(search|answer)>((?:(?!</?(?:search|answer)>).)*)</\1>", re.DOTALL)
_OPENING, _SEARCHED, _ANSWERED = "<answer>", "</search>", "</answer>"
_LOOK_BACK = 2 * len(_SEARCHED)
"""Tokens to look back for the beginning of a tag: twice as many as it has characters."""


@dataclass(frozen=True)
class EpisodeRules:
    """The rules that all episodes of an environment share.

    Attributes:
        piece: Gives the text of one token id.
        decode: Gives the text of token ids.
        end_of_text: Ids that end an action.
        watched: Ids that may end an action: ``end_of_text``, and ids whose text has the last character of a tag.
        max_actions: The largest number of actions; the episode is over after them.
        max_action_tokens: The largest number of tokens of an action; a longer action is cut, and read as it is.
    """

    piece: Callable[[int], str]
    decode: Callable[[list[int]], str]
    end_of_text: frozenset[int]
    watched: frozenset[int]
    max_actions: int
    max_action_tokens: int


@dataclass(slots=True)
class SearchEpisode:
    """One response while it is sampled (`protocols.Episode`).

    Attributes:
        query: The query of the newest action; None if the action does not search.
        answer: The answer of the newest action; None if the action does not answer.
    """

    rules: EpisodeRules
    question: TextQuestion
    prompt: Sequence[int]
    is_over: bool = False
    reward: float = 0.0
    query: str | None = None
    answer: str | None = None
    actions: int = 0
    tool_calls: int = 0
    tool_calls_valid: int = 0
    tool_calls_empty: int = 0
    first_feedback: int = -1
    answer_mask: list[bool] = field(default_factory=list)
    _action: list[int] = field(default_factory=list)
    _is_answering: bool = False

    def step(self, token: int) -> bool:
        """Take one sampled token; return whether it ended the action, which the environment then answers.

        Raises:
            ValueError: If the episode is over.
        """
        if self.is_over:
            raise ValueError("the episode is over and takes no more tokens")
        rules, action = self.rules, self._action
        action.append(token)
        self.answer_mask.append(self._is_answering)
        # Most tokens need only this check.
        if token not in rules.watched and len(action) < rules.max_action_tokens:
            return False
        is_over = self._look_for_tags() or token in rules.end_of_text or len(action) >= rules.max_action_tokens
        if is_over:
            self._read(rules.decode(action))
            self._action, self._is_answering = [], False
        return is_over

    def record_passages(self, passages: Sequence[str]) -> None:
        """Record the passages that the tool found for `query`; a search that is not answered has none to record."""
        self.tool_calls_empty += self.query is not None and not passages
        if self.actions == 1 and passages:
            digest = hashlib.blake2b("\n".join(passages).encode(), digest_size=7).digest()
            self.first_feedback = int.from_bytes(digest, "big")

    def _look_for_tags(self) -> bool:
        """Return whether the newest token closes the action, and mark the tokens of an answer's opening tag.

        Tokens are decoded one at a time. Tags are ASCII, so this does not damage them, as it damages a letter that
        consists of two tokens.
        """
        pieces = [self.rules.piece(token) for token in self._action[-_LOOK_BACK:]]
        tail = "".join(pieces)
        if _OPENING in tail and not self._is_answering:
            self._is_answering = True
            missing = len(tail) - tail.rindex(_OPENING)
            for back, piece in enumerate(reversed(pieces), start=1):
                if missing > 0:
                    self.answer_mask[-back] = True
                missing -= len(piece)
        return _SEARCHED in tail or _ANSWERED in tail

    def _read(self, text: str) -> None:
        """Parse the action that has ended."""
        self.actions += 1
        found = _ACTION.search(text)
        body = found[2].strip() if found else ""
        kind = found[1] if found and body else None
        self.query = body if kind == "search" else None
        self.answer = body if kind == "answer" else None
        self.tool_calls += kind != "answer"
        self.tool_calls_valid += kind == "search"
        if self.answer is not None:
            self.reward = float(exact_match(self.answer, self.question.golden_answers))
        self.is_over = self.answer is not None or self.actions >= self.rules.max_actions
