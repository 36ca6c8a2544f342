"""Demonstrations for the supervised warm start, with flaws that leave GRPO something to learn."""

import random
from dataclasses import dataclass

from trainer_hooks.reference.facts.episode import FactsEpisode
from trainer_hooks.reference.facts.facts import Facts, Question

__all__ = ["Demonstration", "Flaws", "demonstrate"]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A demonstrated response: all tokens from the prompt on, and which of them are action tokens."""

    tokens: list[int]
    is_action: list[bool]


@dataclass(frozen=True)
class Flaws:
    """How often a demonstration goes wrong, each as a probability in [0, 1]."""

    guess: float = 0.10
    """Answers without searching."""
    wrong_query: float = 0.14
    """Searches for another relation."""
    stop_early: float = 0.30
    """Answers a two-hop question after the first hop."""
    wrong_copy: float = 0.08
    """Copies a value that the passages do not give."""
    ramble: float = 0.08
    """Fills a thought with filler words."""
    bad_tag: float = 0.05
    """Closes an action with the wrong tag."""


def demonstrate(
    facts: Facts,
    question: Question,
    draw: random.Random,
    *,
    flaws: Flaws,
    max_actions: int,
    retry: bool,
    thought_words: int = 0,
) -> Demonstration:
    """Demonstrate an episode, with flaws, to its end or to ``max_actions``."""
    episode = FactsEpisode(facts, question, max_actions=max_actions, max_action_tokens=64, retry=retry)
    tokens, is_action = list(question.prompt), [False] * len(question.prompt)
    for action in _actions(facts, question, draw, flaws, thought_words):
        feedback: list[int] = []
        for token in action:
            tokens.append(token)
            is_action.append(True)
            if episode.step(token):
                feedback = episode.feedback()
                break
        tokens += feedback
        is_action += [False] * len(feedback)
        if episode.is_over:
            break
    return Demonstration(tokens, is_action)


def _actions(facts: Facts, question: Question, draw: random.Random, flaws: Flaws, length: int) -> list[list[int]]:
    """Write more actions than needed, because the environment may ask for another answer."""
    words, mark = facts.vocabulary, facts.vocabulary.mark
    actions: list[list[int]] = []
    hops = list(question.hops)
    if len(hops) > 1 and draw.random() < flaws.stop_early:
        hops = hops[:1]
    known: list[int] = []
    entity = hops[0][0]
    if draw.random() < flaws.guess:
        hops = []
        entity = words.entity(draw.randrange(words.entities))
    for _, relation in hops:
        asked = words.relation(draw.randrange(words.relations)) if draw.random() < flaws.wrong_query else relation
        thought = [*_text(facts, draw, length), *known, *_rambling(facts, draw, flaws), mark["find"], entity, asked]
        closing = mark["</answer>"] if draw.random() < flaws.bad_tag else mark["</search>"]
        search = [mark["<think>"], *thought, mark["</think>"], mark["<search>"], entity, asked]
        actions.append([*search, closing])
        if closing != mark["</search>"]:
            actions.append([mark["<search>"], entity, asked, mark["</search>"]])
        value = facts.value((entity, asked))
        if draw.random() < flaws.wrong_copy:
            value = words.entity(draw.randrange(words.entities))
        known = [entity, asked, value, facts.family(value)]
        entity = value
    thought = [*_text(facts, draw, length), *known, *_rambling(facts, draw, flaws)]
    actions.append([mark["<think>"], *thought, mark["</think>"], *_answer(facts, entity, draw)])
    for _ in range(8):
        thought = [*_text(facts, draw, length), mark["hmm"], entity]
        actions.append([mark["<think>"], *thought, mark["</think>"], *_answer(facts, entity, draw)])
    return actions


def _answer(facts: Facts, entity: int, draw: random.Random) -> list[int]:
    mark = facts.vocabulary.mark
    body = [entity, facts.family(entity)] if draw.random() < 0.5 else [entity]  # noqa: PLR2004 - both forms alike
    return [mark["<answer>"], *body, mark["</answer>"]]


def _rambling(facts: Facts, draw: random.Random, flaws: Flaws) -> list[int]:
    mark = facts.vocabulary.mark
    if draw.random() >= flaws.ramble:
        return []
    return [draw.choice((mark["hmm"], mark["so"])) for _ in range(draw.randint(1, 6))]


def _text(facts: Facts, draw: random.Random, length: int) -> list[int]:
    """Write free-form text of about ``length`` words: a random walk with four equally likely successors a word."""
    if not length:
        return []
    words = facts.vocabulary
    word = draw.randrange(words.fillers)
    written = [word]
    for _ in range(draw.randint(length // 2, length + length // 2) - 1):
        word = (5 * word + 7 + 3 * draw.randrange(4)) % words.fillers
        written.append(word)
    return [words.filler(number) for number in written]
