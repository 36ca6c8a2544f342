"""Random processes: autocorrelated noise, the policy's wander, heavy tails. No knowledge of any failure."""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

__all__ = ["HORIZON", "Floats", "ar1", "unit_noise", "wander"]

Floats = NDArray[np.float64]

HORIZON = 480  # steps drawn for every run, so that two runs of one seed share their noise whatever their length


def unit_noise(rng: np.random.Generator, *, tail: float = np.inf) -> Floats:
    """Return white noise of unit variance; Student's t with ``tail`` > 2 degrees of freedom where finite."""
    if np.isinf(tail):
        return rng.standard_normal(HORIZON)
    scaled: Floats = rng.standard_t(tail, HORIZON) / np.sqrt(tail / (tail - 2.0))
    return scaled


def ar1(innovations: Floats, *, rho: float) -> Floats:
    """Return x_t = ρ x_{t−1} + √(1−ρ²) ε_t, with the variance of ε, started in its stationary law."""
    scaled = innovations * np.sqrt(1.0 - rho**2)
    scaled[0] = innovations[0]
    return _decaying_sum(scaled, rho)


def wander(rng: np.random.Generator, *, strength: float = 1.0, momentum: tuple[float, float] = (0.5, 0.75)) -> Floats:
    """Return a policy's aimless entropy path in nats, from 0: momentum in its velocity, weak reversion to its mean.

    v_t is AR(1) with ρ in ``momentum`` and standard deviation 0.0006 to 0.0018 nat/step, times ``strength``;
    W_t = (1−θ) W_{t−1} + v_t, θ in 0.005 to 0.02 (the toy GRPO of detection.md, 3.1).
    """
    velocity = ar1(unit_noise(rng), rho=rng.uniform(*momentum)) * rng.uniform(0.0006, 0.0018) * strength
    reversion = rng.uniform(0.005, 0.02)
    path = _decaying_sum(velocity, 1.0 - reversion)
    path -= path[0]
    return path


def _decaying_sum(steps: Floats, kept: float) -> Floats:
    """Return y_t = kept · y_{t−1} + x_t, as `scipy.signal.lfilter`, which takes a second to import."""
    return np.array(list(accumulate(steps.tolist(), lambda sum_before, step: kept * sum_before + step)))
