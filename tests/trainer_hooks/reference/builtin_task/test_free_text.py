"""Free-form thought: words that name nothing, at the head of every thought."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from trainer_hooks.reference.builtin_task.demonstrations import Flaws, demonstrate
from trainer_hooks.reference.builtin_task.environment import vocabulary_of
from trainer_hooks.reference.builtin_task.facts import Facts, Vocabulary
from trainer_hooks.reference.policy.warm_start import shape_of


def written(config, seed):
    """Return the words of a demonstration that are actions."""
    facts, draw = Facts(vocabulary_of(config), seed=1), random.Random(seed)
    worked = demonstrate(
        facts, facts.question(draw), draw, flaws=Flaws(), max_actions=4, retry=True, thought_words=config.thought_words
    )
    return [token for token, is_action in zip(worked.tokens, worked.is_action, strict=True) if is_action]


def test_every_thought_begins_with_some_words_that_name_nothing(tiny):
    """Six on average means 3 to 9 of them after each ``<think>``, and none anywhere else."""
    config = replace(tiny, thought_words=6)
    words = vocabulary_of(config)
    fillers = range(words.filler(0), len(words))
    assert shape_of(config).vocabulary == len(words)
    for seed in range(20):
        spoken, lengths, length = written(config, seed), [], None
        for token in spoken:
            if token == words.mark["<think>"]:
                length = 0
            elif token in fillers:
                length += 1
            elif length is not None:
                lengths.append(length)
                length = None
        assert lengths
        assert all(3 <= length <= 9 for length in lengths)
        assert sum(lengths) == sum(token in fillers for token in spoken)


def test_wordings_differ_and_each_word_has_four_successors(tiny):
    """Two demonstrations seldom think alike; what may follow a word is one of four."""
    config = replace(tiny, thought_words=6)
    words = vocabulary_of(config)
    fillers = range(words.filler(0), len(words))
    follows = {}
    for seed in range(400):
        spoken = written(config, seed)
        for one, other in pairwise(spoken):
            if one in fillers and other in fillers:
                follows.setdefault(one, set()).add(other)
    assert len(follows) == len(fillers)
    assert max(map(len, follows.values())) == 4


def test_without_it_the_environment_is_as_it_was(tiny):
    """No further words, and the same demonstrations."""
    words = vocabulary_of(tiny)
    assert words.fillers == 0
    assert all(token < len(words) for token in written(tiny, 3))


def test_flawed_demonstrations_have_longer_first_thoughts():
    """With a factor of 3 the first text of responses without a search is three times that of good ones, on average."""
    facts = Facts(Vocabulary(entities=24, fillers=32), seed=0)
    lengths = {}
    for name, flaws in (("good", Flaws(0, 0, 0, 0, 0, 0)), ("guess", Flaws(1, 0, 0, 0, 0, 0))):
        draw = random.Random(1)
        found = []
        for _ in range(60):
            shown = demonstrate(
                facts, facts.question(draw), draw, flaws=flaws, max_actions=4, retry=False,
                thought_words=16, thought_choices=2, wrong_thought_factor=3.0,
            )  # fmt: skip
            closing = shown.tokens.index(facts.vocabulary.mark["</think>"])
            found.append(sum(token >= facts.vocabulary.filler(0) for token in shown.tokens[:closing]))
        lengths[name] = sum(found) / len(found)
    assert lengths["good"] == pytest.approx(16, abs=2)
    assert lengths["guess"] == pytest.approx(48, abs=5)


def test_two_choices_give_text_of_under_one_nat_a_word():
    """Each word is followed by at most two others, so a word carries ln 2 = 0.69 nats; by default four follow."""
    facts = Facts(Vocabulary(entities=24, fillers=32), seed=0)
    first = facts.vocabulary.filler(0)
    for choices in (2, 4):
        followers, draw = {}, random.Random(0)
        for _ in range(200):
            shown = demonstrate(
                facts, facts.question(draw), draw, flaws=Flaws(0, 0, 0, 0, 0, 0), max_actions=4, retry=False,
                thought_words=16, thought_choices=choices,
            )  # fmt: skip
            for token, following in zip(shown.tokens, shown.tokens[1:], strict=False):
                if token >= first and following >= first:
                    followers.setdefault(token, set()).add(following)
        assert max(map(len, followers.values())) == choices
