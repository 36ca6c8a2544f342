"""Chooses among forks by paired differences to the unchanged one.

A treatment must be shown to help, because the run may be healthy and the warning wrong. Below, "clearly" means that the
whole 95 % interval of the paired difference is on one side of 0.

1. A fork is excluded if it has diverged, or if its reward is clearly lower than the control's.
2. The candidates are the remaining forks whose reward is clearly higher than the control's. If there is none, they are
   the remaining forks whose held-out correct responses clearly keep more likelihood than the control's. If the control
   has diverged, all remaining forks are candidates.
3. A candidate is excluded if its reward is clearly lower than that of the best candidate. The winner is the remaining
   candidate whose held-out correct responses keep most likelihood, because likelihood falls before the reward does.
4. If there is no candidate, the control wins.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainer_hooks.forks.measurement import Estimate, ForkMeasurement
from trainer_hooks.forks.treatments import CONTROL

__all__ = ["Choice", "ForkScore", "choose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkScore:
    """A fork's estimates; ``…_gain`` estimate paired differences to the control, on the same questions or responses."""

    name: str
    steps: int
    has_diverged: bool
    reward: Estimate
    displacement: Estimate
    entropy: Estimate
    reward_gain: Estimate
    displacement_gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The winner, the reason, and the score of every fork in the order in which they were trained."""

    winner: str
    why: str
    scores: tuple[ForkScore, ...]


def choose(measurements: Iterable[ForkMeasurement]) -> Choice:
    """Choose the fork to go on with.

    Args:
        measurements: One measurement for each fork, the control among them.

    Raises:
        ValueError: If there is no control, two forks have one name, or forks that did not fail differ in their steps or
            in the contexts on which they were measured.
    """
    given = list(measurements)
    forks = {fork.name: fork for fork in given}
    if CONTROL not in forks or len(forks) != len(given):
        raise ValueError(
            f"forks must have different names, and one must be {CONTROL!r}, got {[fork.name for fork in given]}"
        )
    _require_comparable([fork for fork in given if not fork.failure])
    control = forks[CONTROL]
    scores = {fork.name: _score(fork, control) for fork in given}
    rivals = [fork for fork in given if fork is not control and not fork.has_diverged]
    candidates, why = _candidates(rivals, scores, control_failed=control.has_diverged)
    winner = _best(candidates)
    return Choice(winner=(winner or control).name, why=why, scores=tuple(scores.values()))


def _require_comparable(forks: Sequence[ForkMeasurement]) -> None:
    """Raise an error unless forks trained for the same steps and were measured on the same contexts."""
    steps = {fork.name: fork.steps for fork in forks}
    if len(set(steps.values())) > 1:
        raise ValueError(
            f"forks must train for the same number of steps, got {steps}; give one that did not reach its last step "
            "the reason as failure"
        )
    for kind in ("rewards", "displacements", "entropy_changes"):
        counts = {fork.name: len(getattr(fork, kind)) for fork in forks}
        if len(set(counts.values())) > 1:
            raise ValueError(f"forks must be measured on the same contexts, got numbers of {kind} of {counts}")


def _candidates(
    rivals: Sequence[ForkMeasurement], scores: Mapping[str, ForkScore], *, control_failed: bool
) -> tuple[list[ForkMeasurement], str]:
    """Return the forks that are better than the control, and in what."""
    if control_failed:
        return list(rivals), "the unchanged fork has diverged" if rivals else "every fork has diverged"
    rest = [fork for fork in rivals if not scores[fork.name].reward_gain.high < 0]
    if rising := [fork for fork in rest if scores[fork.name].reward_gain.low > 0]:
        return rising, "its reward is clearly higher than that of the unchanged fork"
    if keeping := [fork for fork in rest if scores[fork.name].displacement_gain.low > 0]:
        return keeping, "its held-out correct responses clearly keep more likelihood than those of the unchanged fork"
    return [], "no treatment is clearly better"


def _best(candidates: Sequence[ForkMeasurement]) -> ForkMeasurement | None:
    """Return the candidate that keeps most likelihood, of those whose reward is not clearly lower than the best."""
    if not candidates:
        return None
    highest = max(candidates, key=lambda fork: Estimate.of(fork.rewards).mean)
    level = [fork for fork in candidates if not Estimate.of(_differences(fork.rewards, highest.rewards)).high < 0]
    return max(level, key=lambda fork: _or_lowest(Estimate.of(fork.displacements).mean))


def _score(fork: ForkMeasurement, control: ForkMeasurement) -> ForkScore:
    return ForkScore(
        name=fork.name,
        steps=fork.steps,
        has_diverged=fork.has_diverged,
        reward=Estimate.of(fork.rewards),
        displacement=Estimate.of(fork.displacements),
        entropy=Estimate.of(fork.entropy_changes),
        reward_gain=Estimate.of(_differences(fork.rewards, control.rewards)),
        displacement_gain=Estimate.of(_differences(fork.displacements, control.displacements)),
    )


def _differences(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Subtract in pairs; nothing where a fork that failed has no values."""
    if not len(values) or not len(others):
        return []
    return [float(value - other) for value, other in zip(values, others, strict=True)]


def _or_lowest(value: float) -> float:
    return -math.inf if math.isnan(value) else value
