"""Prompts, held-out questions, and one question to the tool for all that wait."""

import random
import threading

import pytest

from tests.trainer_hooks.reference.custom_task.making import corpus, environment_of, questions, say
from trainer_hooks.reference.custom_task.tool import ToolError


class Recording:
    """A search tool that keeps its queries."""

    def __init__(self):
        self.asked = []

    def search(self, queries):
        """Find something for everything."""
        self.asked.append(list(queries))
        return [[f"about {query}"] for query in queries]


def waiting(environment, text):
    """An episode whose action has just ended."""
    episode = environment.episode(questions()[0])
    for token in environment.encode(text):
        episode.step(token)
    return episode


def test_all_that_wait_are_asked_for_at_once_each_query_once(tokenizer):
    """Three searches, two of them alike, an answer and nonsense: one call with two queries."""
    tool = Recording()
    environment = environment_of(tokenizer, tool)
    texts = ["<search>a</search>", "<search>b</search>", "<search>a</search>", "<answer>c</answer>", "d</answer>"]
    feedback = [tokenizer.decode(ids) for ids in environment.feedback([waiting(environment, text) for text in texts])]
    assert tool.asked == [["a", "b"]]
    assert ["about a" in feedback[0], "about b" in feedback[1], "about a" in feedback[2]] == [True] * 3
    assert feedback[3] == ""
    assert "could not be read" in feedback[4]
    assert environment.feedback([]) == []
    assert len(tool.asked) == 1


def test_what_is_found_is_cut_between_its_tags(tokenizer):
    """No more than max_feedback_tokens, and the closing tag is there."""

    class Long:
        def search(self, queries):
            return [["word " * 500] for _ in queries]

    environment = environment_of(tokenizer, Long(), max_feedback_tokens=7)
    [feedback] = environment.feedback([waiting(environment, "<search>a</search>")])
    around = sum(len(tokenizer(tag)["input_ids"]) for tag in ("\n\n<information>", "</information>\n\n"))
    assert len(feedback) == 7 + around
    assert tokenizer.decode(feedback).endswith("</information>\n\n")


def test_nothing_found_is_reported(tokenizer):
    """A query that matches nothing is a valid search."""
    environment = environment_of(tokenizer, corpus())
    episode = environment.episode(questions()[0])
    assert "Nothing was found." in say(environment, episode, "<search>zzz</search>")
    assert (episode.tool_calls_valid, episode.tool_calls_empty) == (1, 1)


def test_a_search_in_the_last_action_is_neither_asked_nor_counted_as_empty(tokenizer):
    """Nobody would read what it finds, but it was well formed."""
    environment = environment_of(tokenizer, tool := Recording(), max_actions=1)
    last = waiting(environment, "<search>a</search>")
    assert environment.feedback([last]) == [[]]
    assert (tool.asked, last.tool_calls_valid, last.tool_calls_empty) == ([], 1, 0)


def test_held_out_questions_are_never_trained_on(tokenizer):
    """Of six questions the last is held out; drawing more than exist repeats it."""
    environment = environment_of(tokenizer, corpus())
    drawn = environment.held_out(random.Random(0), 3)
    assert len(drawn) == 3
    assert not set(drawn) & set(environment.questions)
    assert len(environment.questions) == 5


def test_a_prompt_longer_than_the_context_is_located(tokenizer):
    """The message has the question's place and the setting to change."""
    with pytest.raises(
        ValueError, match=r"q:1: the prompt must leave room to answer in a context of 5 tokens.*--context"
    ):
        environment_of(tokenizer, corpus(), context=5)
    with pytest.raises(ValueError, match=r"must hold .question."):
        environment_of(tokenizer, corpus(), prompt="Answer!")


def test_a_chat_template_is_used_where_there_is_one(tokenizer):
    """The prompt goes through it, with the beginning of an answer."""
    tokenizer = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<eos>")  # noqa: S106 - text
    tokenizer.chat_template = (
        "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    environment = environment_of(tokenizer, corpus())
    assert tokenizer.decode(environment.episode(questions()[0]).prompt) == "[user]Q: capital of France?\n[assistant]"


def test_a_tool_that_raises_hangs_or_miscounts_stops_the_step(tokenizer):
    """Each becomes a ToolError with its cause; a hanging tool is left behind."""

    class Raising:
        def search(self, queries):
            raise RuntimeError(f"index is corrupt at {queries[0]}")

    class Miscounting:
        def search(self, queries):
            return [] if queries else [[]]

    class Hanging:
        def __init__(self):
            self.release = threading.Event()

        def search(self, queries):
            self.release.wait()
            return [[] for _ in queries]

    hanging = Hanging()
    for tool, seconds, message in (
        (Raising(), 5.0, "must answer, got RuntimeError: index is corrupt at a"),
        (Miscounting(), 5.0, "must answer each of 1 queries, got 0 answers"),
        (hanging, 0.05, "must answer within 0.05 s"),
    ):
        environment = environment_of(tokenizer, tool, tool_seconds=seconds)
        with pytest.raises(ToolError, match=message):
            environment.feedback([waiting(environment, "<search>a</search>")])
    hanging.release.set()
