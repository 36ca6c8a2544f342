"""The environment of your own questions in plain text and a search tool, in the protocol of Search-R1."""

import functools
import random
from collections.abc import Sequence
from typing import Any

from trainer_hooks.reference.custom_task.episode import TAGS, EpisodeRules, SearchEpisode
from trainer_hooks.reference.custom_task.questions import TextQuestion
from trainer_hooks.reference.custom_task.tool import SearchTool, ToolError, within

__all__ = ["PROMPT", "SearchEnvironment"]

PROMPT = """\
Answer the question below. Think between <think> and </think> whenever you have learned something. If you lack \
knowledge, write a query between <search> and </search>: what is found comes back between <information> and \
</information>, as often as you ask. When you know enough, write the answer alone between <answer> and </answer>, for \
example <answer> Beijing </answer>.
Question: {question}
"""

_INVALID = """
The last action could not be read. Search with <search> and </search> around a query, or answer with <answer> and \
</answer> around the answer.
"""

_HELD_OUT = 10
"""Every tenth question is held out."""


class SearchEnvironment:
    """A question set, a tokenizer and a search tool.

    Args:
        questions: The questions; every tenth is held out from training.
        tool: Answers searches, all queries in one call.
        tokenizer: Of the model, from transformers.
        context: Most tokens of a response, with its prompt.
        max_actions: Actions in a response.
        max_action_tokens: Tokens in an action.
        max_feedback_tokens: Largest number of tokens of the tool's answer; a longer answer is cut.
        tool_seconds: Longest time that the tool may take for one batch of queries.
        prompt: Text that a response begins with; ``{question}`` stands for the question. It goes through the
            tokenizer's chat template where there is one.

    Raises:
        ValueError: If there is no question to hold out, or a prompt does not fit; the message names it.
    """

    def __init__(
        self,
        questions: Sequence[TextQuestion],
        tool: SearchTool,
        tokenizer: Any,  # noqa: ANN401 - transformers names no type for all tokenizers
        *,
        context: int,
        max_actions: int,
        max_action_tokens: int,
        max_feedback_tokens: int,
        tool_seconds: float,
        prompt: str = PROMPT,
    ) -> None:
        if len(questions) < 2:  # noqa: PLR2004 - one to train on, one to hold out
            raise ValueError(f"a question set must hold at least 2 questions, got {len(questions)}")
        if "{question}" not in prompt:
            raise ValueError("the prompt must hold {question}, where the question goes")
        self._held_out = list(questions[_HELD_OUT - 1 :: _HELD_OUT]) or [questions[-1]]
        places = {question.place for question in self._held_out}
        self.questions = [question for question in questions if question.place not in places]
        self._tool = tool
        self._tool_seconds = tool_seconds
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._max_feedback_tokens = max_feedback_tokens
        self._rules = EpisodeRules(
            piece=functools.cache(lambda token: self.decode([token])),
            decode=self.decode,
            end_of_text=frozenset({tokenizer.eos_token_id}),
            watched=frozenset(number for piece, number in tokenizer.get_vocab().items() if ">" in piece)
            | {tokenizer.eos_token_id},
            max_actions=max_actions,
            max_action_tokens=max_action_tokens,
        )
        alone = [self.encode(tag) for tag in TAGS]
        self.control_ids = [ids[0] for ids in alone if len(ids) == 1]
        for question in questions:
            if (length := len(self._prompt_ids(question))) >= context:
                raise ValueError(
                    f"{question.place}: the prompt must leave room to answer in a context of {context} tokens, got "
                    f"{length}; raise --context or leave the question out"
                )

    def held_out(self, draw: random.Random, count: int) -> list[TextQuestion]:
        """Draw held-out questions; a question is repeated only if ``count`` exceeds their number."""
        if count <= len(self._held_out):
            return draw.sample(self._held_out, count)
        return draw.choices(self._held_out, k=count)

    def episode(self, question: TextQuestion) -> SearchEpisode:
        """Begin an episode."""
        return SearchEpisode(self._rules, question, self._prompt_ids(question))

    def feedback(self, episodes: Sequence[SearchEpisode]) -> list[list[int]]:
        """Answer the newest action of each episode; one call of the tool has each different query once.

        Raises:
            ToolError: If the tool does not answer.
        """
        queries = list(dict.fromkeys(episode.query for episode in episodes if episode.query and not episode.is_over))
        found: dict[str | None, list[str]] = {}
        if queries:
            answers = within(self._tool_seconds, lambda: self._tool.search(queries))
            if len(answers) != len(queries):
                raise ToolError(
                    f"the search tool must answer each of {len(queries)} queries, got {len(answers)} answers"
                )
            found = dict(zip(queries, answers, strict=True))
        return [self._feedback_to(episode, found.get(episode.query, [])) for episode in episodes]

    def _feedback_to(self, episode: SearchEpisode, passages: Sequence[str]) -> list[int]:
        """Return the tokens of feedback; the passages between the tags are truncated."""
        if episode.is_over:
            return []
        episode.record_passages(passages)
        if episode.query is None:
            return self.encode(_INVALID)
        found = "\n".join(f"Doc {number}: {passage}" for number, passage in enumerate(passages, start=1))
        body = self.encode(found or "Nothing was found.")[: self._max_feedback_tokens]
        return [*self.encode("\n\n<information>"), *body, *self.encode("</information>\n\n")]

    def _prompt_ids(self, question: TextQuestion) -> list[int]:
        text = self._prompt.replace("{question}", question.question)
        if not getattr(self._tokenizer, "chat_template", None):
            return list(self._tokenizer(text)["input_ids"])
        messages = [{"role": "user", "content": text}]
        return self.encode(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without the tokens that mark its beginning and end."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, with all of its spaces and marks."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
