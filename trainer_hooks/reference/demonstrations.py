"""Worked responses for the supervised warm start, with the imperfections that leave GRPO something to learn."""

import random
from dataclasses import dataclass

from trainer_hooks.reference.episode import FactsEpisode
from trainer_hooks.reference.facts import Facts, Question

__all__ = ["Demonstration", "Flaws", "demonstrate"]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked response: all tokens from the prompt on, and which of them are action tokens."""

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
    """Fills a thought with words that say nothing."""
    bad_tag: float = 0.05
    """Closes an action with the wrong tag."""


def demonstrate(
    facts: Facts, question: Question, draw: random.Random, *, flaws: Flaws, max_actions: int, retry: bool
) -> Demonstration:
    """Play an episode by the book, flaws aside, to its end or to ``max_actions``."""
    episode = FactsEpisode(facts, question, max_actions=max_actions, max_action_tokens=64, retry=retry)
    tokens, is_action = list(question.prompt), [False] * len(question.prompt)
    for action in _actions(facts, question, draw, flaws):
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


def _actions(facts: Facts, question: Question, draw: random.Random, flaws: Flaws) -> list[list[int]]:
    """Write the actions; more than are needed, because the environment may ask for another answer."""
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
        thought = [*known, *_rambling(facts, draw, flaws), mark["find"], entity, asked]
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
    actions.append(
        [mark["<think>"], *known, *_rambling(facts, draw, flaws), mark["</think>"], *_answer(facts, entity, draw)]
    )
    thought = [mark["<think>"], mark["hmm"], entity, mark["</think>"]]
    actions += [[*thought, *_answer(facts, entity, draw)] for _ in range(8)]
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
