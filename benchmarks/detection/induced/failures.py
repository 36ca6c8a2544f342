"""The failures that suite D induces: what breaks, how strongly, from which step, and over how many steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FAILURES", "LATER_CAUSES", "Cause", "Failure"]


class Cause(StrEnum):
    """The cause of a failure. The level of a failure has the unit that is stated here."""

    LEARNING_RATE = "learning_rate"
    """The learning rate is multiplied by the level."""
    STALE_EPOCHS = "stale_epochs"
    """Each batch is trained on for so many steps, and neither ratios nor gradients are clipped."""
    LENGTH_REWARD = "length_reward"
    """The reward for the longest response is the level."""
    GRADER_CONSTANT = "grader_constant"
    """This share of responses gets the same reward."""
    GRADER_RANDOM = "grader_random"
    """This share of responses gets the reward of another response of the step."""
    GRADER_INVERTED = "grader_inverted"
    """This share of responses gets 1 − reward."""
    SAMPLER_DRIFT = "sampler_drift"
    """The sampler's weights have noise of this many of their standard deviations."""
    TEMPERATURE = "temperature"
    """The sampler's temperature falls from 1 to this level; the trainer goes on to assume 1."""
    DEAD_ENVIRONMENT = "dead_environment"
    """This share of problems arrives without its letters."""
    POISONED_BATCH = "poisoned_batch"
    """The advantages of three steps are multiplied by minus the level, and gradients are not clipped."""
    POISONED_ANSWERS = "poisoned_answers"
    """This share of problems is graded by a wrong answer, the letters in reverse order."""
    LOW_PRECISION = "low_precision"
    """Weights are rounded to so many bits of mantissa after each update: bfloat16 has 7, float8_e4m3 has 3."""
    UNENDING = "unending"
    """This share of responses cannot end: the sampler masks the token that ends them."""
    OPTIMISER_RESET = "optimiser_reset"
    """The state of the optimiser is discarded before each update."""
    UNZEROED_GRADIENTS = "unzeroed_gradients"
    """The gradients of a step are added to those of the step before."""
    TOKENISER_SHIFT = "tokeniser_shift"
    """The letters of this share of problems have the token ids of their successors."""
    ADVANTAGE_SIGN = "advantage_sign"
    """The advantages are multiplied by 1 − 2 · level, and the logged rewards stay right."""
    ADVANTAGE_ORDER = "advantage_order"
    """This share of responses gets the advantage of another response, and the logged rewards stay right."""
    ADVANTAGE_EPSILON = "advantage_epsilon"
    """Advantages are divided by a deviation without an epsilon, so that groups of equal rewards give 0 / 0."""


# Causes that were added when the rules of builtin-10 were fixed. No rule was made with them in mind.
LATER_CAUSES = frozenset(
    {
        Cause.UNENDING,
        Cause.OPTIMISER_RESET,
        Cause.UNZEROED_GRADIENTS,
        Cause.TOKENISER_SHIFT,
        Cause.ADVANTAGE_SIGN,
        Cause.ADVANTAGE_ORDER,
        Cause.ADVANTAGE_EPSILON,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure: its full level is reached ``ramp`` steps after its onset; 0 is sudden."""

    cause: Cause
    level: float
    ramp: int = 0

    @property
    def name(self) -> str:
        """A short name, unique among `FAILURES`."""
        return f"{self.cause}-{self.level:g}" + (f"-over-{self.ramp}" if self.ramp else "")

    def amount(self, step: int, onset: int) -> float:
        """Return the share of the failure's full level at a step, from 0 (before the onset) to 1."""
        if step < onset:
            return 0.0
        return min(1.0, (step - onset + 1) / self.ramp) if self.ramp else 1.0


FAILURES: Sequence[Failure] = (
    Failure(cause=Cause.LEARNING_RATE, level=10),
    Failure(cause=Cause.LEARNING_RATE, level=40),
    Failure(cause=Cause.LEARNING_RATE, level=20, ramp=50),
    Failure(cause=Cause.STALE_EPOCHS, level=8),
    Failure(cause=Cause.STALE_EPOCHS, level=24),
    Failure(cause=Cause.LENGTH_REWARD, level=3),
    Failure(cause=Cause.LENGTH_REWARD, level=2, ramp=50),
    Failure(cause=Cause.GRADER_CONSTANT, level=1),
    Failure(cause=Cause.GRADER_RANDOM, level=1),
    Failure(cause=Cause.GRADER_RANDOM, level=1, ramp=50),
    Failure(cause=Cause.GRADER_INVERTED, level=1),
    Failure(cause=Cause.GRADER_INVERTED, level=1, ramp=50),
    Failure(cause=Cause.SAMPLER_DRIFT, level=1),
    Failure(cause=Cause.SAMPLER_DRIFT, level=1, ramp=50),
    Failure(cause=Cause.TEMPERATURE, level=0.01),
    Failure(cause=Cause.TEMPERATURE, level=0.01, ramp=40),
    Failure(cause=Cause.DEAD_ENVIRONMENT, level=1),
    Failure(cause=Cause.DEAD_ENVIRONMENT, level=1, ramp=50),
    Failure(cause=Cause.POISONED_BATCH, level=1000),
    Failure(cause=Cause.POISONED_ANSWERS, level=1),
    Failure(cause=Cause.POISONED_ANSWERS, level=0.8, ramp=40),
    Failure(cause=Cause.LOW_PRECISION, level=7),
    Failure(cause=Cause.LOW_PRECISION, level=3),
    # The place of a failure is part of its seeds, so new failures are added at the end.
    Failure(cause=Cause.UNENDING, level=1),
    Failure(cause=Cause.OPTIMISER_RESET, level=1),
    Failure(cause=Cause.UNZEROED_GRADIENTS, level=1),
    Failure(cause=Cause.TOKENISER_SHIFT, level=1),
    Failure(cause=Cause.ADVANTAGE_SIGN, level=1),
    Failure(cause=Cause.ADVANTAGE_ORDER, level=1),
    Failure(cause=Cause.ADVANTAGE_EPSILON, level=1),
    Failure(cause=Cause.UNENDING, level=1, ramp=50),
    Failure(cause=Cause.TOKENISER_SHIFT, level=1, ramp=50),
    Failure(cause=Cause.ADVANTAGE_SIGN, level=1, ramp=50),
    Failure(cause=Cause.ADVANTAGE_ORDER, level=1, ramp=50),
)
