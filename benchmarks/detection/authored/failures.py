"""The other ways runs die: each moves its own signals first, some with no warning at all."""

import numpy as np

from benchmarks.detection.authored.displacement import TAIL_STEPS, Spiral, take_down
from benchmarks.detection.authored.latent import Kind, Latent, learning
from benchmarks.detection.authored.noise import HORIZON, Floats

__all__ = ["KINDS"]

STEPS = np.arange(HORIZON, dtype=np.float64)


def entropy_collapse(rng: np.random.Generator) -> Latent:
    """Lose the entropy down to 2 to 6 % within tens of steps; success follows when little is left to explore."""
    latent, onset = _begin(rng)
    fall = rng.uniform(0.02, 0.06) + np.exp(-_since(onset) / rng.uniform(10.0, 25.0))
    latent.entropy = latent.entropy * np.minimum(fall, 1.0)
    return _finish(latent, onset, _loss(onset + int(rng.integers(35, 70)), rng.uniform(4.0, 10.0)))


def entropy_explosion(rng: np.random.Generator) -> Latent:
    """Raise the entropy by a nat and more within 25 to 60 steps, with no slow phase before."""
    latent, onset = _begin(rng)
    duration = rng.uniform(25.0, 60.0)
    rise = rng.uniform(0.8, 2.0) * np.clip(_since(onset) / duration, 0.0, 1.0) ** 2
    latent.entropy = latent.entropy + rise
    latent.displaced = latent.displaced + 0.3 * rise
    latent.repetition = np.clip(latent.repetition + 0.1 * rise, 0.0, 1.0)
    return _finish(latent, onset, 1.0 / (1.0 + (rise / rng.uniform(0.4, 0.7)) ** 3))


def tool_use_collapse(rng: np.random.Generator) -> Latent:
    """Peak in tool use, then give it up within 20 to 50 steps; what needed tools is no longer answered."""
    latent, onset = _begin(rng)
    left = 1.0 - np.clip(_since(onset) / rng.uniform(20.0, 50.0), 0.0, 1.0) * rng.uniform(0.92, 1.0)
    latent.tool_calls = latent.tool_calls * left
    latent.length = latent.length * (0.6 + 0.4 * left)
    return _finish(latent, onset, np.clip(left * rng.uniform(1.0, 1.3) + 0.05, 0.0, 1.0))


def control_token_spike(rng: np.random.Generator) -> Latent:
    """Break the protocol: control tokens lose their place within a few steps, and structure with them."""
    latent, onset = _begin(rng)
    broken = 1.0 - np.exp(-_since(onset) / rng.uniform(3.0, 8.0))
    latent.control_prob = latent.control_prob * (1.0 - rng.uniform(0.4, 0.8) * broken)
    latent.tools_valid = latent.tools_valid * (1.0 - 0.8 * broken)
    return _finish(latent, onset, 1.0 / (1.0 + (broken / 0.55) ** 4 * 3.0))


def reward_hacking(rng: np.random.Generator) -> Latent:
    """Raise the reward with ultra-short answers and no search, while the true success rate falls."""
    latent, onset = _begin(rng)
    hacked = np.clip(_since(onset) / rng.uniform(20.0, 50.0), 0.0, 1.0)
    lost = 1.0 - 0.85 * hacked**1.5
    latent.proxy = latent.quality * (1.0 - lost) + rng.uniform(0.15, 0.4) * hacked
    latent.length = latent.length * (1.0 - 0.9 * hacked)
    latent.tool_calls = latent.tool_calls * (1.0 - 0.9 * hacked)
    latent.repetition = np.clip(latent.repetition + 0.2 * hacked, 0.0, 1.0)
    return _finish(latent, onset, lost)


def offpolicy_blowup(rng: np.random.Generator) -> Latent:
    """Let the sampler and the trainer drift apart for 20 to 40 steps, until ratios and gradients blow up."""
    latent, onset = _begin(rng)
    drift = _since(onset) * rng.uniform(0.08, 0.16)
    latent.log_mismatch = latent.log_mismatch + np.minimum(drift, 7.0)
    latent.log_ratio = latent.log_ratio + np.minimum(0.5 * drift, 6.0)
    latent.log_grad = latent.log_grad + np.minimum(0.5 * np.maximum(drift - 1.0, 0.0), 3.0)
    return _finish(latent, onset, 1.0 / (1.0 + (drift / 4.0) ** 6))


def gradient_explosion(rng: np.random.Generator) -> Latent:
    """Grow the gradient by a third to a half every step; the policy breaks when it is some 20 times too large."""
    latent, onset = _begin(rng)
    growth = np.minimum(_since(onset) * rng.uniform(0.25, 0.45), 8.0)
    latent.log_grad = latent.log_grad + growth
    latent.log_ratio = latent.log_ratio + 0.4 * growth
    broken = 1.0 / (1.0 + (growth / rng.uniform(2.5, 3.5)) ** 6)
    latent.entropy = latent.entropy + 0.8 * (1.0 - broken)
    return _finish(latent, onset, broken)


def non_finite(rng: np.random.Generator) -> Latent:
    """Turn NaN from one step to the next; nothing foretells it."""
    latent, onset = _begin(rng)
    latent.bad_from = onset
    return _finish(latent, onset, np.where(onset <= STEPS, 0.02, 1.0))


def advantage_order(rng: np.random.Generator) -> Latent:
    """Train on advantages that belong to other responses or have the wrong sign: slowly, what was learned is lost."""
    latent, onset = _begin(rng)
    level, spread = rng.uniform(-1.0, 0.5), rng.uniform(0.0, 0.15)
    broken = np.clip(level + spread * rng.standard_normal(HORIZON), -1.0, 1.0)
    latent.advantage_corr = np.where(onset <= STEPS, broken, 1.0)
    return _finish(latent, onset, _loss(onset + int(rng.integers(30, 90)), rng.uniform(8.0, 20.0)))


def sudden(rng: np.random.Generator) -> Latent:
    """Blow up within 3 to 8 steps (train/sampler mismatch): likelihood, gradient and reward all at once."""
    start = int(rng.integers(40, 250))
    spiral = Spiral(
        onset=start,
        acceleration=start,
        slope=float(rng.uniform(0.01, 0.05)),
        growth=float(rng.uniform(0.5, 1.1)),
        tolerance=0.15,
        steepness=3.0,
        surge=float(rng.uniform(0.5, 0.9)),
        surge_delay=0,
    )
    return take_down(learning(rng), spiral)


def _begin(rng: np.random.Generator) -> tuple[Latent, int]:
    return learning(rng), int(rng.integers(40, 250))


def _since(onset: int) -> Floats:
    return np.maximum(STEPS - onset, 0.0)


def _loss(at: int, width: float) -> Floats:
    """Return the share of success left when nearly all of it goes around step ``at``."""
    return 0.05 + 0.95 / (1.0 + np.exp((STEPS - at) / width))


def _finish(latent: Latent, onset: int, left: Floats) -> Latent:
    """Take success down to the share ``left`` and end the run some steps after its collapse."""
    latent.quality = latent.quality * left
    latent.onset = latent.acceleration = onset
    collapse = latent.collapse
    latent.steps = HORIZON if collapse is None else min(HORIZON, collapse + TAIL_STEPS)
    return latent


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        entropy_collapse,
        entropy_explosion,
        tool_use_collapse,
        control_token_spike,
        reward_hacking,
        offpolicy_blowup,
        gradient_explosion,
        non_finite,
        advantage_order,
        sudden,
    )
}
