"""The signals of a healthy run, so that every detector has its input when the collector is measured."""

import random
from typing import Final

__all__ = ["LEVELS", "deviation", "healthy_levels", "healthy_steps"]

LEVELS: Final = {
    "reward/mean": 0.5,
    "entropy/mean": 0.5,
    "grad/norm": 1.0,
    "reward/std": 0.4,
    "length/mean": 200.0,
    "likelihood/correct": -0.4,
    "likelihood/incorrect": -0.4,
    "entropy/paired_delta": 0.0,
    "displacement/cross": 0.0,
    "kl/old": 0.01,
    "kl/ref": 0.01,
    "loss/policy": 0.0,
    "loss/llds": 0.0,
    "lr": 1e-6,
    "ratio/max": 1.5,
    "ratio/p999": 1.2,
    "ratio/clip_frac": 0.01,
    "ratio/ess_frac": 0.98,
    "ratio/log_var": 0.001,
    "mismatch/kl": 0.001,
    "mismatch/logprob_abs": 0.01,
    "mismatch/ratio": 1.0,
    "instrument/logprob_abs": 0.001,
    "instrument/entropy_abs": 0.001,
    "instrument/mask_frac": 0.0,
    "advantage/mean_abs": 0.5,
    "advantage/reward_corr": 0.9,
    "reward/correct_frac": 0.5,
    "reward/zero_std_frac": 0.2,
    "length/truncated_frac": 0.02,
    "tools/calls": 1.5,
    "tools/valid_frac": 0.95,
    "tools/none_frac": 0.1,
    "tools/unbroken_frac": 0.0,
    "control/prob": 0.01,
    "control/share": 0.01,
    "text/usual_frac": 0.9,
    "text/repetition": 0.1,
    "text/looping_frac": 0.01,
    "text/unseen_frac": 0.01,
    "text/unseen_pairs_frac": 0.05,
    "moe/load_entropy": 0.5,
    "qk/spectral_entropy": 0.5,
}
"""The level of each signal that a detector reads, those of every trainer first."""

NOISE = 0.02  # of the level
SMALLEST_DEVIATION = 0.0002


def healthy_levels(count: int) -> dict[str, float]:
    """Return the levels of a number of signals by name; those that no detector reads are the last ones.

    >>> list(healthy_levels(len(LEVELS) + 1))[-1]
    'signal/0'
    """
    others = {f"signal/{place}": 0.5 for place in range(count - len(LEVELS))}
    return dict(list((LEVELS | others).items())[:count])


def deviation(name: str, level: float) -> float:
    """Return the standard deviation of a signal; a share of 0 stays 0."""
    if level == 0.0 and name.endswith("_frac"):
        return 0.0
    return max(NOISE * abs(level), SMALLEST_DEVIATION)


def healthy_steps(count: int, *, steps: int) -> list[dict[str, float]]:
    """Return the values of some successive steps, the same at each call.

    Args:
        count: The number of signals of a step.
        steps: The number of steps.
    """
    noise, levels = random.Random(0), healthy_levels(count)  # noqa: S311 - numbers for a benchmark
    return [{name: noise.gauss(level, deviation(name, level)) for name, level in levels.items()} for _ in range(steps)]
