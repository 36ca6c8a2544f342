"""The rules of an episode: where an action ends, what the tool answers, when it is over, what it earned.

An action is text that ends with ``</search>`` or ``</answer>``, or with its token limit. The environment answers
every action except a last one; the reward is exact match of the first answer. Knows no model and no tensor.
"""

from dataclasses import dataclass, field

from trainer_hooks.reference.world import Fact, Question, World

__all__ = ["Episode"]


@dataclass(slots=True)
class Episode:
    """One response in the making: feed it the sampled tokens, and it says what feedback follows.

    Attributes:
        max_actions: After so many actions the episode is over.
        max_action_tokens: An action that has not ended by then is invalid.
        retry: Whether a wrong answer is told and the episode goes on, as under a verifier that lets an agent try
            again. The reward is that of the first answer all the same, so wrong responses become long ones.
    """

    world: World
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
    _action: list[int] = field(default_factory=list)

    def step(self, token: int) -> list[int]:
        """Take one sampled token; give the feedback that follows it, empty while the action goes on.

        Raises:
            ValueError: If the episode is over.
        """
        if self.is_over:
            raise ValueError("the episode is over and takes no more tokens")
        mark = self.world.vocabulary.mark
        self._action.append(token)
        if token not in (mark["</search>"], mark["</answer>"]) and len(self._action) < self.max_action_tokens:
            return []
        action, self._action = self._action, []
        self.actions += 1
        feedback = self._answer_to(action)
        self.is_over = self.is_over or self.actions >= self.max_actions
        return [] if self.is_over else [mark["<info>"], *feedback, mark["</info>"]]

    def _answer_to(self, action: list[int]) -> list[int]:
        mark = self.world.vocabulary.mark
        if (query := self._query(action)) is not None:
            self.searches.append(query)
            self.first_search = query if self.actions == 1 else self.first_search
            return self.world.search(query)
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
        words = self.world.vocabulary
        body = self._between(action, "<search>", "</search>")
        if body is not None and len(body) == 2 and words.is_entity(body[0]) and words.is_relation(body[1]):  # noqa: PLR2004
            return body[0], body[1]
        return None

    def _between(self, action: list[int], opening: str, closing: str) -> tuple[int, ...] | None:
        """Give what stands between a tag and its closing at the action's end; None where that is not so."""
        mark = self.world.vocabulary.mark
        if action[-1] != mark[closing] or mark[opening] not in action:
            return None
        start = len(action) - 1 - action[::-1].index(mark[opening])
        body = tuple(action[start + 1 : -1])
        return body if body and not any(token in _TAGS for token in body) else None


_TAGS = range(9)
"""The first marks are the tags: no body of an action may hold one."""
