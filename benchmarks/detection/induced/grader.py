"""The grader of suite D, which a failure can break."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.induced.failures import Cause, Failure
from benchmarks.detection.induced.sampler import LONGEST
from benchmarks.detection.induced.task import LETTERS, places_right

__all__ = ["Grader"]

STYLE_WEIGHT = 0.5  # of the share of places that are right; a right answer gives 1


class Grader:
    """Grades responses: 1 for a right answer, and half the share of places that are right.

    Args:
        answers: The right answers by problem, ``(N, 7)`` token ids.
        seed: The seed of its generator.
        step: Returns the present step.
        amount: Returns the share of the failure's full level at that step.
        failure: The failure; None in a healthy run.
    """

    def __init__(
        self,
        answers: NDArray[np.int64],
        seed: int,
        step: Callable[[], int],
        amount: Callable[[], float],
        failure: Failure | None,
    ) -> None:
        self._answers, self._seed, self._step = answers, seed, step
        self._amount, self._failure = amount, failure

    def exact(self, completion_ids: list[list[int]], index: list[int], **_: object) -> list[float]:
        """Return the verdicts of the grader: 1 for a right answer, else 0; a broken grader errs."""
        graded = self._broken((self._places(completion_ids, index) == 1.0).astype(float))
        return [float(reward) for reward in graded]

    def style(self, completion_ids: list[list[int]], index: list[int], **_: object) -> list[float]:
        """Return half the share of places that are right, plus the reward for length of a failure."""
        graded = self._broken(self._places(completion_ids, index)) * STYLE_WEIGHT
        if self._failure is not None and self._failure.cause is Cause.LENGTH_REWARD:
            lengths = np.array([len(tokens) for tokens in completion_ids])
            graded = graded + self._failure.level * self._amount() * lengths / LONGEST
        return [float(reward) for reward in graded]

    def _places(self, completions: list[list[int]], index: list[int]) -> NDArray[np.float64]:
        answers = self._answers[np.array(index)]
        if self._failure is not None and self._failure.cause is Cause.POISONED_ANSWERS:
            poisoned = np.random.default_rng(self._seed).random(len(self._answers)) < (
                self._failure.level * self._amount()
            )
            reverse = np.hstack([answers[:, LETTERS - 1 :: -1], answers[:, LETTERS:]])
            answers = np.where(poisoned[np.array(index)][:, None], reverse, answers)
        return places_right(completions, answers)

    def _broken(self, graded: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._failure is None or not self._failure.cause.startswith("grader_"):
            return graded
        # The same responses are misgraded by each reward function of a step.
        random = np.random.default_rng([self._seed, self._step()])
        hit = random.random(len(graded)) < self._failure.level * self._amount()
        instead = {
            Cause.GRADER_CONSTANT: np.full(len(graded), 0.5),
            Cause.GRADER_RANDOM: random.permutation(graded),
            Cause.GRADER_INVERTED: 1.0 - graded,
        }[self._failure.cause]
        return np.where(hit, instead, graded)
