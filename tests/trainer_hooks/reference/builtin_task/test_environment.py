"""Facts, searches and the rules of an episode."""

import random

import pytest

from trainer_hooks.reference.builtin_task.episode import FactsEpisode
from trainer_hooks.reference.builtin_task.facts import Facts, Question, Vocabulary

WORDS = Vocabulary(entities=16)
MARK = WORDS.mark


@pytest.fixture
def facts():
    return Facts(WORDS, seed=5)


def two_hop(facts):
    """A question whose answer is the value of a value, in the short form."""
    first = (WORDS.entity(3), WORDS.relation(1))
    second = (facts.value(first), WORDS.relation(2))
    prompt = (MARK["<q>"], first[0], first[1], second[1], MARK["</q>"])
    return Question(prompt, (first, second), (facts.value(second),))


def say(episode, *texts):
    """Feed words to an episode and give the feedback that followed the last."""
    for text in texts:
        is_due = episode.step(MARK[text] if isinstance(text, str) else text)
    return episode.feedback() if is_due else []


def episode(facts, question, *, retry=False, max_actions=4):
    return FactsEpisode(facts, question, max_actions=max_actions, max_action_tokens=8, retry=retry)


def test_the_same_seed_makes_the_same_environment():
    """Facts, passages and questions depend on the seed alone."""
    one, two, other = Facts(WORDS, seed=5), Facts(WORDS, seed=5), Facts(WORDS, seed=6)
    query = (WORDS.entity(0), WORDS.relation(0))
    assert one.search(query) == two.search(query)
    assert one.question(random.Random(1)) == two.question(random.Random(1))
    assert [one.search((WORDS.entity(n), WORDS.relation(0))) for n in range(16)] != [
        other.search((WORDS.entity(n), WORDS.relation(0))) for n in range(16)
    ]


def test_a_search_finds_the_fact_among_distractors(facts):
    """Three passages of entity, relation, value, family; one of them is the fact asked for."""
    query = (WORDS.entity(3), WORDS.relation(1))
    found = facts.search(query)
    passages = [found[start : start + 5] for start in range(0, len(found), 5)]
    assert len(passages) == 3
    value = facts.value(query)
    assert [*query, value, facts.family(value), MARK["|"]] in passages
    assert all(facts.value((entity, relation)) == value for entity, relation, value, _, _ in passages)


def test_following_the_hops_earns_the_reward(facts):
    """Search, search, answer: reward 1, two searches, nothing invalid."""
    question = two_hop(facts)
    played = episode(facts, question)
    for hop in question.hops:
        feedback = say(played, "<search>", *hop, "</search>")
        assert feedback[0] == MARK["<info>"]
        assert feedback[1:-1] == facts.search(hop)
        assert feedback[-1] == MARK["</info>"]
    assert say(played, "<answer>", *question.answer, "</answer>") == []
    assert (played.is_over, played.reward, played.actions, played.invalid_actions) == (True, 1.0, 3, 0)
    assert played.searches == list(question.hops)


def test_only_the_first_answer_earns(facts):
    """With retry, the feedback names a wrong answer and the episode goes on; a right second answer has no reward."""
    question = two_hop(facts)
    played = episode(facts, question, retry=True)
    feedback = say(played, "<answer>", WORDS.relation(0), "</answer>")
    assert feedback == [MARK["<info>"], MARK["wrong"], MARK["retry"], MARK["</info>"]]
    say(played, "<answer>", *question.answer, "</answer>")
    assert (played.is_over, played.reward, played.answers) == (True, 0.0, 2)


def test_a_wrong_answer_without_retry_ends_the_episode(facts):
    """There is no second chance."""
    played = episode(facts, two_hop(facts))
    assert say(played, "<answer>", WORDS.relation(0), "</answer>") == []
    assert (played.is_over, played.reward) == (True, 0.0)


@pytest.mark.parametrize(
    "action",
    [
        ("</search>",),
        ("<search>", "</search>"),
        ("<search>", "find", "</search>"),
        ("<answer>", "</answer>"),
        ("<search>", "hmm", "</answer>"),
        ("<answer>", "<think>", "</answer>"),
        ("hmm",) * 8,
    ],
)
def test_an_action_that_cannot_be_read_is_answered_so(facts, action):
    """Bad tags, empty bodies and endless talk are answered, counted and survived."""
    played = episode(facts, two_hop(facts))
    assert say(played, *action) == [MARK["<info>"], MARK["invalid"], MARK["retry"], MARK["</info>"]]
    assert (played.invalid_actions, played.is_over, played.reward) == (1, False, 0.0)


def test_an_episode_ends_at_its_last_action(facts):
    """After max_actions nothing follows, and no more tokens are taken."""
    played = episode(facts, two_hop(facts), max_actions=1)
    assert say(played, "</search>") == []
    assert played.is_over
    with pytest.raises(ValueError, match="over"):
        played.step(0)


def test_every_word_has_a_text():
    """There are as many texts as ids, all different, in the order of the ids."""
    words = Vocabulary(entities=5, relations=2, families=3, fillers=1)
    assert len(words.texts) == len(set(words.texts)) == len(words)
    assert words.texts[words.mark["<search>"]] == "<search>"
    found = [words.texts[number] for number in (words.relation(1), words.entity(4), words.family(0), words.filler(0))]
    assert found == ["relation1", "entity4", "family0", "word0"]
