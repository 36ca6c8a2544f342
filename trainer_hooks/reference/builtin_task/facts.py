"""A small set of invented facts: questions of one and two hops, and a search tool.

All of it is generated from a seed. The rules of an episode are in `episode`, examples of good responses in
`demonstrations`.
"""

import random
from dataclasses import dataclass
from functools import cached_property

__all__ = ["MARKS", "Facts", "Question", "Vocabulary"]

MARKS = (
    "<pad>", "<q>", "</q>", "<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>",
    "<info>", "</info>", "|", "find", "hmm", "so", "invalid", "wrong", "retry", "nothing",
)  # fmt: skip

Fact = tuple[int, int]
"""An entity and a relation, as token ids: what a search asks for."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question: its prompt, the searches that lead to the answer, and the answer's tokens."""

    prompt: tuple[int, ...]
    hops: tuple[Fact, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class Vocabulary:
    """Token ids: marks, then relations, entities, the family names of entities, and words that name nothing."""

    entities: int = 96
    relations: int = 8
    families: int = 24
    fillers: int = 0

    def __len__(self) -> int:
        return len(MARKS) + self.relations + self.entities + self.families + self.fillers

    @cached_property
    def mark(self) -> dict[str, int]:
        """The id of each mark by its text."""
        return {text: number for number, text in enumerate(MARKS)}

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of every token id: marks as they are, other words by kind and number, such as ``entity12``."""
        kinds = (("relation", self.relations), ("entity", self.entities), ("family", self.families))
        named = [f"{kind}{number}" for kind, count in (*kinds, ("word", self.fillers)) for number in range(count)]
        return (*MARKS, *named)

    def relation(self, number: int) -> int:
        """Return the id of a relation."""
        return len(MARKS) + number

    def entity(self, number: int) -> int:
        """Return the id of an entity."""
        return self.relation(self.relations) + number

    def family(self, number: int) -> int:
        """Return the id of a family name."""
        return self.entity(self.entities) + number

    def filler(self, number: int) -> int:
        """Return the id of a word of free-form thought, which names nothing."""
        return self.family(self.families) + number

    def is_entity(self, token: int) -> bool:
        """Return whether a token names an entity."""
        return self.entity(0) <= token < self.family(0)

    def is_relation(self, token: int) -> bool:
        """Return whether a token names a relation."""
        return self.relation(0) <= token < self.entity(0)


class Facts:
    """Facts by a seed: every entity has a value, which is an entity, for every relation, and a family name.

    Args:
        vocabulary: The words.
        seed: Seed of the facts and of the order of passages.
        long_form: Share of questions whose answer includes the family name. The question does not show which they are,
            so a wrong answer may differ from the right one by a single token, in an otherwise equal episode.
    """

    def __init__(self, vocabulary: Vocabulary, *, seed: int, long_form: float = 0.3) -> None:
        self.vocabulary = vocabulary
        self.seed = seed
        self._long_form = long_form
        draw = random.Random(seed)
        numbers = range(vocabulary.entities)
        self._value = [[draw.choice(numbers) for _ in range(vocabulary.relations)] for _ in numbers]
        self._family = [draw.randrange(vocabulary.families) for _ in numbers]

    def value(self, fact: Fact) -> int:
        """Return the entity token that a fact leads to."""
        words = self.vocabulary
        return words.entity(self._value[fact[0] - words.entity(0)][fact[1] - words.relation(0)])

    def family(self, entity: int) -> int:
        """Return the family-name token of an entity token."""
        return self.vocabulary.family(self._family[entity - self.vocabulary.entity(0)])

    def question(self, draw: random.Random) -> Question:
        """Draw a question, of one or two hops with equal chance."""
        words, mark = self.vocabulary, self.vocabulary.mark
        start = words.entity(draw.randrange(words.entities))
        relations = [words.relation(draw.randrange(words.relations)) for _ in range(draw.choice((1, 2)))]
        hops: list[Fact] = []
        for relation in relations:
            hops.append((self.value(hops[-1]) if hops else start, relation))
        final = self.value(hops[-1])
        answer = (final, self.family(final)) if draw.random() < self._long_form else (final,)
        return Question((mark["<q>"], start, *relations, mark["</q>"]), tuple(hops), answer)

    def search(self, query: Fact) -> list[int]:
        """Return three passages in a fixed order: the fact asked for and two that share half of it with the query."""
        words = self.vocabulary
        draw = random.Random(f"{self.seed} {query}")
        entity, relation = query
        other_relation = words.relation(draw.randrange(words.relations))
        other_entity = words.entity(draw.randrange(words.entities))
        facts = [query, (entity, other_relation), (other_entity, relation)]
        draw.shuffle(facts)
        passages: list[int] = []
        for fact in facts:
            value = self.value(fact)
            passages += [*fact, value, self.family(value), words.mark["|"]]
        return passages
