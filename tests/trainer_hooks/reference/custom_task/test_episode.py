"""The rules of an episode in plain text, spoken token by token."""

import pytest

from tests.trainer_hooks.reference.custom_task.making import corpus, environment_of, questions, say


@pytest.fixture
def environment(tokenizer):
    return environment_of(tokenizer, corpus())


@pytest.fixture
def episode(environment):
    return environment.episode(questions()[0])


def test_a_search_is_answered_and_an_answer_ends_the_episode(environment, episode):
    """Search, passages between information tags, answer, reward 1."""
    feedback = say(environment, episode, "<think>who knows</think><search>capital of France</search>")
    assert feedback == "\n\n<information>Doc 1: The capital of France is Paris.</information>\n\n"
    assert not episode.is_over
    assert say(environment, episode, "<answer> the Paris </answer>") == ""
    assert (episode.is_over, episode.reward, episode.actions) == (True, 1.0, 2)
    assert (episode.tool_calls, episode.tool_calls_valid) == (1, 1)
    with pytest.raises(ValueError, match="over"):
        episode.step(5)


def test_a_wrong_answer_ends_the_episode_without_reward(environment, episode):
    """There is no second chance."""
    assert say(environment, episode, "<answer>Berlin</answer>") == ""
    assert (episode.is_over, episode.reward) == (True, 0.0)


@pytest.mark.parametrize(
    "action",
    [
        "</search>",
        "<search> </search>",
        "<answer></answer>",
        "<search>capital</answer>",
        "hm<eos>",
        "<eos>",
        "hm " * 60,
    ],
)
def test_an_action_that_cannot_be_read_is_answered_so(environment, episode, action):
    """Missing tags, empty bodies, an empty response and endless talk are counted, answered and survived."""
    feedback = None
    for token in environment.encode(action):
        if episode.step(token):
            feedback = environment.decode(environment.feedback([episode])[0])
            break
    assert "could not be read" in feedback
    assert (episode.is_over, episode.tool_calls, episode.tool_calls_valid) == (False, 1, 0)
    assert episode.first_feedback == -1


def test_the_innermost_query_counts(environment, episode):
    """An opening tag that is never closed does not swallow the query after it."""
    assert "Rome" in say(environment, episode, "<search>x <answer>y <search>capital of Italy</search>")


def test_an_episode_ends_at_its_last_action(tokenizer):
    """After max_actions nothing is asked and nothing follows."""

    class Never:
        def search(self, queries):
            raise AssertionError(queries)

    environment = environment_of(tokenizer, Never(), max_actions=1)
    episode = environment.episode(questions()[0])
    assert say(environment, episode, "<search>capital of France</search>") == ""
    assert (episode.is_over, episode.reward) == (True, 0.0)


def test_answer_tokens_run_from_the_opening_tag_to_the_end_of_the_action(environment, episode):
    """Tags of many tokens are marked whole, and nothing before them is."""
    say(environment, episode, "<search>capital of Spain</search>")
    assert not any(episode.answer_mask)
    before = len(episode.answer_mask)
    ids = environment.encode("<think>so</think><answer>Lima</answer>")
    for token in ids:
        episode.step(token)
    assert len(episode.answer_mask) == before + len(ids)
    marked = [token for token, inside in zip(ids, episode.answer_mask[before:], strict=True) if inside]
    text = environment.decode(marked)
    assert text.endswith("<answer>Lima</answer>")
    assert len(text) <= len("<answer>Lima</answer>") + 1


def test_equal_first_feedback_has_equal_numbers(environment):
    """Episodes with the same first results share a number; other results have another number; no search has −1."""
    numbers = []
    for text in ("capital of France", "France", "capital of Peru", "zzz"):
        episode = environment.episode(questions()[0])
        say(environment, episode, f"<search>{text}</search>")
        numbers.append(episode.first_feedback)
    assert numbers[0] == numbers[1] >= 0
    assert numbers[2] not in (numbers[0], -1)
    assert numbers[3] == -1
