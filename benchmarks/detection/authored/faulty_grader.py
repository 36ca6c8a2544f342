"""Faults of the grader: it marks a response of a prompt with success rate p as correct with probability a + b·p.

`reward/correct_frac` and the likelihoods of correct and incorrect responses follow the marks, as in the recordings of
suite D: there the likelihood of correct responses fell from −0.23 to −1.14 nat as a constant grader came.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.detection.authored.fault import (
    STEPS,
    Fault,
    after,
    begin,
    begin_faulty,
    hold,
    loss,
    noise,
    scale_update,
)
from benchmarks.detection.authored.groups import all_marked
from benchmarks.detection.authored.latent import Latent
from benchmarks.detection.authored.noise import Floats

__all__ = ["FAULTS"]

_CORRECT = ("likelihood/correct", "likelihood/correct_seq", "likelihood/action0", "likelihood/action1")
_INCORRECT = "likelihood/incorrect"
_OF_UPDATE = ("grad/norm", "loss/policy", "kl/old", "entropy/paired_delta")


def grader_constant(rng: np.random.Generator, level: float) -> Latent:
    """Give this share of the responses the same verdict from one step on; what is left of learning stops."""
    latent = begin(rng)
    return _constant(latent, rng, level)


def constant_from_start(rng: np.random.Generator, level: float) -> Latent:
    """Give this share of the responses the same verdict from the first step on."""
    latent = begin_faulty(rng)
    return _constant(latent, rng, level)


def grader_random(rng: np.random.Generator, level: float) -> Latent:
    """Give this share of the responses the verdict of another response of the step."""
    latent = begin(rng)
    share, rows, wander = level * after(latent), rng.uniform(60.0, 200.0), rng.uniform(0.0, 0.15)
    left = loss(latent, rows, harm=0.9 * level)
    _misgrade(latent, rng, lambda success: (share * success, 1.0 - share))
    return _unlearn(latent, left, wander, 0.1)


def grader_inverted(rng: np.random.Generator, level: float) -> Latent:
    """Invert the verdict of this share of the responses; at one half the rewards say nothing any more."""
    latent = begin(rng)
    share, rows, wander = level * after(latent), rng.uniform(25.0, 90.0), rng.uniform(0.05, 0.3)
    left = loss(latent, rows, harm=0.97 * level)
    _misgrade(latent, rng, lambda success: (share * np.ones_like(success), 1.0 - 2.0 * share))
    return _unlearn(latent, left, wander, rng.uniform(0.1, 0.4))


def _constant(latent: Latent, rng: np.random.Generator, level: float) -> Latent:
    share, verdict, start = level * after(latent), float(rng.integers(2)), latent.onset or 0
    hold(latent, 1.0 - share)  # without advantages the policy stays where it is
    _misgrade(latent, rng, lambda success: (share * verdict * np.ones_like(success), 1.0 - share), update=1.0 - share)
    if level == 1.0:  # nothing is marked incorrect, or nothing correct
        latent.unobserved |= dict.fromkeys((_INCORRECT,) if verdict else _CORRECT, start <= STEPS)
    return latent


def _misgrade(
    latent: Latent,
    rng: np.random.Generator,
    marks: Callable[[Floats], tuple[Floats, Floats]],
    *,
    update: Floats | None = None,
) -> None:
    """Log what a faulty grader's verdicts give.

    Args:
        latent: The run.
        rng: Draws the noise of the share of groups without variance.
        marks: Returns a and b by step for a success rate by step.
        update: Share of the usual update that is left; None for all of it.
    """
    more = noise(rng, 0.2 / np.sqrt(latent.prompts))

    def reported(signals: dict[str, Floats]) -> dict[str, Floats]:
        success = np.clip(latent.quality, 1e-3, 1.0 - 1e-3)
        floor, slope = marks(success)
        reward = np.clip(floor + slope * signals["reward/mean"], 0.0, 1.0)
        marked = all_marked(success, latent.group_size, floor=floor, slope=slope)
        unmarked = all_marked(success, latent.group_size, floor=1.0 - floor, slope=-slope)
        silent = marked + unmarked
        right, wrong = (floor + slope) * success, floor * (1.0 - success)  # of all responses, marked correct
        gap = signals[_INCORRECT] - signals[_CORRECT[0]]
        shift = gap * wrong / np.maximum(right + wrong, 1e-9)
        missed = success - right
        shifts = {name: signals[name] + shift for name in _CORRECT if name != "likelihood/correct_seq"}
        return (
            (signals if update is None else scale_update(signals, update, *_OF_UPDATE))
            | shifts
            | {
                "reward/mean": reward,
                "reward/correct_frac": reward,
                "reward/std": np.sqrt(reward * (1.0 - reward)),
                "reward/zero_std_frac": np.where(silent > 1.0 - 1e-9, 1.0, np.clip(silent + more, 0.0, 1.0)),
                "reward/all_correct_frac": np.where(marked > 1.0 - 1e-9, 1.0, np.clip(marked + more, 0.0, 1.0)),
                "reward/all_wrong_frac": np.where(unmarked > 1.0 - 1e-9, 1.0, np.clip(unmarked + more, 0.0, 1.0)),
                "likelihood/correct_seq": signals["likelihood/correct_seq"] + shift * signals["length/mean"],
                _INCORRECT: signals[_INCORRECT] - gap * missed / np.maximum(missed + 1.0 - success - wrong, 1e-9),
            }
        )

    latent.reported = reported


def _unlearn(latent: Latent, left: Floats, entropy: float, displaced: float) -> Latent:
    """Lose success down to the share ``left``, and gain entropy (nats) and displacement in proportion to the loss."""
    latent.quality = latent.quality * left
    latent.entropy = latent.entropy + entropy * (1.0 - left)
    latent.displaced = latent.displaced + displaced * (1.0 - left)
    return latent


FAULTS = {
    "grader_constant": Fault(build=grader_constant, sound=0.0, levels=(0.5, 1.0)),
    "constant_from_start": Fault(build=constant_from_start, sound=0.0, levels=(0.9, 1.0)),
    "grader_random": Fault(build=grader_random, sound=0.0, levels=(0.5, 1.0)),
    "grader_inverted": Fault(build=grader_inverted, sound=0.0, levels=(0.5, 1.0)),
}
