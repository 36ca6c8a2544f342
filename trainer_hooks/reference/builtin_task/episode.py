"""The rules of the built-in environment: where an action ends, what the tool answers, when an episode ends, its reward.

An action is text that ends with ``</search>`` or ``</answer>``, or with its token limit. The environment answers
every action except a last one; the reward is exact match of the first answer. This module uses no model and no tensor.
"""

from dataclasses import dataclass, field

from trainer_hooks.reference.builtin_task.facts import Fact, Facts, Question

__all__ = ["FactsEpisode"]


@dataclass(slots=True)
class FactsEpisode:
    """One response while it is sampled (`protocols.Episode`).

    Attributes:
        max_actions: The largest number of actions; the episode is over after them.
        max_action_tokens: The largest number of tokens of an action; a longer action is invalid.
        retry: Whether a wrong answer gets feedback and the episode goes on, as with a verifier that lets an agent try
            again. The reward is that of the first answer all the same, so wrong responses become long ones.
    """

    facts: Facts
    question: Question
    max_actions: int
    max_action_tokens: int
    retry: bool
    is_over: bool = False
    reward: float = 0.0
    actions: int = 0
    invalid_actions: int = 0
    searches: list[Fact] = field(default_factory=list)
    first_search: Fact | None = None
    answers: int = 0
    answer_mask: list[bool] = field(default_factory=list)
    tool_calls_empty: int = 0  # the tool of this environment always finds something
    _action: list[int] = field(default_factory=list)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens that the response begins with."""
        return self.question.prompt

    @property
    def tool_calls(self) -> int:
        """Searches, and malformed actions."""
        return len(self.searches) + self.invalid_actions

    @property
    def tool_calls_valid(self) -> int:
        """Searches."""
        return len(self.searches)

    @property
    def first_feedback(self) -> int:
        """A number that identifies the first action's search; −1 where it did not search."""
        if self.first_search is None:
            return -1
        entity, relation = self.first_search
        return entity * len(self.facts.vocabulary) + relation

    def step(self, token: int) -> bool:
        """Take one sampled token; return whether it ended the action, which `feedback` then answers.

        Raises:
            ValueError: If the episode is over.
        """
        if self.is_over:
            raise ValueError("the episode is over and takes no more tokens")
        mark = self.facts.vocabulary.mark
        is_inside = bool(self._action) and self.answer_mask[-1]
        self.answer_mask.append(is_inside or token == mark["<answer>"])
        self._action.append(token)
        return token in (mark["</search>"], mark["</answer>"]) or len(self._action) >= self.max_action_tokens

    def feedback(self) -> list[int]:
        """Answer the action that has just ended; empty where the episode ends with it."""
        mark = self.facts.vocabulary.mark
        action, self._action = self._action, []
        self.actions += 1
        feedback = self._answer_to(action)
        self.is_over = self.is_over or self.actions >= self.max_actions
        return [] if self.is_over else [mark["<info>"], *feedback, mark["</info>"]]

    def _answer_to(self, action: list[int]) -> list[int]:
        mark = self.facts.vocabulary.mark
        if (query := self._query(action)) is not None:
            self.searches.append(query)
            self.first_search = query if self.actions == 1 else self.first_search
            return self.facts.search(query)
        if (answer := self._between(action, "<answer>", "</answer>")) is not None:
            self.answers += 1
            is_right = answer == self.question.answer
            if self.answers == 1:
                self.reward = float(is_right)
            self.is_over = is_right or not self.retry
            return [mark["wrong"], mark["retry"]]
        self.invalid_actions += 1
        return [mark["invalid"], mark["retry"]]

    def _query(self, action: list[int]) -> Fact | None:
        words = self.facts.vocabulary
        body = self._between(action, "<search>", "</search>")
        if body is not None and len(body) == 2 and words.is_entity(body[0]) and words.is_relation(body[1]):  # noqa: PLR2004
            return body[0], body[1]
        return None

    def _between(self, action: list[int], opening: str, closing: str) -> tuple[int, ...] | None:
        """Return the tokens between a tag and its closing tag at the action's end; None where there is no such pair."""
        mark = self.facts.vocabulary.mark
        if action[-1] != mark[closing] or mark[opening] not in action:
            return None
        start = len(action) - 1 - action[::-1].index(mark[opening])
        body = tuple(action[start + 1 : -1])
        return body if body and not any(token in _TAGS for token in body) else None


_TAGS = range(9)
"""The ids of the tags, which are the first marks; the body of an action must not contain one."""
