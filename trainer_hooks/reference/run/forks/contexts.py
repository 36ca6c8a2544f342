"""The held-out questions and contexts on which the forks of a run are compared."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.forks import ForkMeasurement
from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Environment, Policy, Rollout

__all__ = ["ForkContexts"]

_SEED = 424_242_424
_MOST_DRAWS = 20
"""How often questions are drawn in search of enough that are not trained on; an environment may have too few."""


@dataclass(frozen=True, slots=True)
class ForkContexts:
    """Questions that are not trained on, and the healthy checkpoint's responses with their statistics.

    A held-out question whose prompt is that of a training question is drawn again. If the environment has fewer
    different questions than were asked for, each of them is there once, because an answer that is counted twice would
    make the intervals too narrow.

    The draws use a separate generator, so that the draws of the run do not change.
    """

    environment: Environment
    questions: Sequence[Any]
    tokens: Tensor
    mask: Tensor
    correct: Tensor
    logprobs: Tensor
    entropies: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: Policy, environment: Environment, count: int) -> "ForkContexts":
        """Let the healthy checkpoint answer so many questions, or all that there are, and score its responses."""
        questions = _unseen(environment, count)
        rollout = _answers(model, environment, questions)
        device = next(model.parameters()).device
        tokens, mask = rollout.tokens.to(device), rollout.mask.to(device)
        right = rollout.rewards.to(device) > 0
        return cls(environment, questions, tokens, mask, right, *token_statistics(model, tokens, mask))

    @torch.no_grad()
    def measure(self, name: str, steps: int, model: Policy) -> ForkMeasurement:
        """Score the same responses under a fork's weights, and let it answer the same questions with the same seed."""
        logprobs, entropies = token_statistics(model, self.tokens, self.mask)
        spoke = self.mask.any(dim=1)
        lengths = self.mask.sum(dim=1).clamp(min=1)
        moved = ((logprobs - self.logprobs).sum(dim=1) / lengths)[spoke & self.correct]
        changed = ((entropies - self.entropies).sum(dim=1) / lengths)[spoke]
        return ForkMeasurement(
            name=name,
            steps=steps,
            rewards=_answers(model, self.environment, self.questions).rewards.tolist(),
            displacements=moved.tolist(),
            entropy_changes=changed.tolist(),
        )


def _unseen(environment: Environment, count: int) -> list[Any]:
    """Draw held-out questions that are not training questions too, as far as the environment has so many."""

    def prompt(question: Any) -> tuple[int, ...]:  # noqa: ANN401 - a question is the environment's own
        return tuple(environment.episode(question).prompt)

    draw = random.Random(_SEED)
    trained = {prompt(question) for question in environment.questions}
    unseen: list[Any] = []
    for _ in range(_MOST_DRAWS):
        drawn = environment.held_out(draw, count)
        unseen += [question for question in drawn if prompt(question) not in trained]
        # A question that is drawn twice among many is two draws of it; where there are too few, it is a repeat.
        if len({prompt(question) for question in unseen}) >= count:
            return unseen[:count]
    return list({prompt(question): question for question in [*unseen, *drawn]}.values())[:count]


def _answers(model: Policy, environment: Environment, questions: Sequence[Any]) -> Rollout:
    generator = torch.Generator(next(model.parameters()).device).manual_seed(_SEED)
    model.eval()
    return model.sample(environment, [environment.episode(question) for question in questions], generator=generator)
