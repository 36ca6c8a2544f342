"""Demonstrations for the supervised warm start, with flaws that leave GRPO something to learn."""

import random
from dataclasses import dataclass

from trainer_hooks.reference.builtin_task.episode import FactsEpisode
from trainer_hooks.reference.builtin_task.facts import Facts, Question
from trainer_hooks.reference.protocols import Demonstration

__all__ = ["Flaws", "demonstrate"]


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
    thought_choices: int = 4,
    wrong_thought_factor: float = 1.0,
) -> Demonstration:
    """Demonstrate an episode, with flaws, to its end or to ``max_actions``.

    Args:
        facts: The environment.
        question: Its question.
        draw: The only source of randomness.
        flaws: How often the demonstration goes wrong.
        max_actions: Most actions.
        retry: Whether a wrong answer gets feedback and the episode goes on.
        thought_words: Words of free-form text in a thought, on average.
        thought_choices: Equally likely words that may follow each of them.
        wrong_thought_factor: Factor on the length of the first thought where the first action or its plan is flawed.
    """
    longest = int(1.5 * thought_words * max(1.0, wrong_thought_factor))
    episode = FactsEpisode(
        facts, question, max_actions=max_actions, max_action_tokens=max(64, longest + 32), retry=retry
    )
    text = _Text(facts, draw, thought_words, thought_choices, wrong_thought_factor)
    tokens, is_action = list(question.prompt), [False] * len(question.prompt)
    for action in _actions(facts, question, draw, flaws, text):
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


def _actions(facts: Facts, question: Question, draw: random.Random, flaws: Flaws, text: "_Text") -> list[list[int]]:
    """Write more actions than needed, because the environment may ask for another answer."""
    words, mark = facts.vocabulary, facts.vocabulary.mark
    actions: list[list[int]] = []
    hops = list(question.hops)
    if len(hops) > 1 and draw.random() < flaws.stop_early:
        hops = hops[:1]
        text.is_flawed = True
    known: list[int] = []
    entity = hops[0][0]
    if draw.random() < flaws.guess:
        hops = []
        text.is_flawed = True
        entity = words.entity(draw.randrange(words.entities))
    for _, relation in hops:
        asked = words.relation(draw.randrange(words.relations)) if draw.random() < flaws.wrong_query else relation
        text.is_flawed = text.is_flawed or asked != relation
        thought = [*text.write(), *known, *_draw_rambling(facts, draw, flaws), mark["find"], entity, asked]
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
    thought = [*text.write(), *known, *_draw_rambling(facts, draw, flaws)]
    actions.append([mark["<think>"], *thought, mark["</think>"], *_answer(facts, entity, draw)])
    for _ in range(8):
        thought = [*text.write(), mark["hmm"], entity]
        actions.append([mark["<think>"], *thought, mark["</think>"], *_answer(facts, entity, draw)])
    return actions


def _answer(facts: Facts, entity: int, draw: random.Random) -> list[int]:
    mark = facts.vocabulary.mark
    body = [entity, facts.family(entity)] if draw.random() < 0.5 else [entity]  # noqa: PLR2004 - both forms alike
    return [mark["<answer>"], *body, mark["</answer>"]]


def _draw_rambling(facts: Facts, draw: random.Random, flaws: Flaws) -> list[int]:
    mark = facts.vocabulary.mark
    if draw.random() >= flaws.ramble:
        return []
    return [draw.choice((mark["hmm"], mark["so"])) for _ in range(draw.randint(1, 6))]


@dataclass(slots=True)
class _Text:
    """Writes free-form text: a random walk over filler words with equally likely successors.

    The first text of a flawed response is longer by a factor, so that wrong responses have longer first thoughts.
    """

    facts: Facts
    draw: random.Random
    length: int
    choices: int
    factor: float
    is_flawed: bool = False
    is_first: bool = True

    def write(self) -> list[int]:
        """Write about ``length`` words."""
        if not self.length:
            return []
        length = round(self.length * self.factor) if self.is_first and self.is_flawed else self.length
        self.is_first = False
        words = self.facts.vocabulary
        word = self.draw.randrange(words.fillers)
        written = [word]
        for _ in range(self.draw.randint(length // 2, length + length // 2) - 1):
            word = (5 * word + 7 + 3 * self.draw.randrange(self.choices)) % words.fillers
            written.append(word)
        return [words.filler(number) for number in written]
