"""The built-in environment: questions over generated facts, and a search tool that never fails. Downloads nothing."""

import random
from collections.abc import Sequence

from trainer_hooks.probes.expected_mask import TurnGrammar
from trainer_hooks.reference.builtin_task.episode import FactsEpisode
from trainer_hooks.reference.builtin_task.facts import Facts, Question, Vocabulary
from trainer_hooks.reference.config import Config

__all__ = ["FactsEnvironment", "vocabulary_of"]

FILLERS = 32
"""The number of words of free-form thought, where the configuration has such thoughts."""

TAGS = ("<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>")


def vocabulary_of(config: Config) -> Vocabulary:
    """Build the vocabulary of a configuration."""
    return Vocabulary(entities=config.entities, fillers=FILLERS if config.thought_words else 0)


class FactsEnvironment:
    """The facts and the rules of a configuration as an environment (`protocols.Environment`)."""

    def __init__(self, config: Config) -> None:
        words = vocabulary_of(config)
        self.facts = Facts(words, seed=config.world_seed, long_form=config.long_form)
        draw = random.Random(config.world_seed)
        self.questions = [self.facts.question(draw) for _ in range(config.train_questions)]
        self.control_ids = [words.mark[tag] for tag in TAGS]
        self.texts = words.texts
        # Derived from the tokens alone, to check the mask that the sampler makes; no other environment has it.
        self.turn_grammar = TurnGrammar(
            ends=frozenset({words.mark["</search>"], words.mark["</answer>"]}),
            resumes=(words.mark["</info>"],),
            longest_turn=config.max_action_tokens,
        )
        self._rules = (config.max_actions, config.max_action_tokens, config.retry)

    def held_out(self, draw: random.Random, count: int) -> list[Question]:
        """Draw questions from the distribution of the training questions, so that some of them are trained on too."""
        return [self.facts.question(draw) for _ in range(count)]

    def episode(self, question: Question) -> FactsEpisode:
        """Begin an episode."""
        return FactsEpisode(self.facts, question, *self._rules)

    def feedback(self, episodes: Sequence[FactsEpisode]) -> list[list[int]]:
        """Answer the action that has just ended in each of the episodes."""
        return [episode.feedback() for episode in episodes]
