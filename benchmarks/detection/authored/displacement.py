"""Runs that die of lazy likelihood displacement: a slow drift (phase II), then acceleration (phase III), collapse.

The policy's entropy e and the lost likelihood of correct responses grow with one displacement D(t) in nats per
token: D′ = s from t₁, s·exp(g·(t − t₂)) from t₂. Reward goes on rising in phase II and breaks down with what phase
III adds to D; gradient and ratio surge some steps after t₂ (arXiv 2512.04220, section 5.1 and Figure 2).
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.detection.authored.latent import Kind, Latent, learning
from benchmarks.detection.authored.noise import HORIZON, Floats

__all__ = ["KINDS", "Spiral", "draw_spiral", "take_down"]

STEPS = np.arange(HORIZON, dtype=np.float64)
TAIL_STEPS = 12  # rows kept after the collapse
LARGEST_STEP = 0.25  # nat/token a step; a policy this far gone has nothing left to lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Spiral:
    """One death: when it starts and accelerates, and how fast (nat/token/step, 1/step, steps)."""

    onset: int
    acceleration: int
    slope: float
    growth: float
    tolerance: float  # displacement in phase III that halves the success rate, nat/token
    steepness: float
    surge: float
    surge_delay: int

    def displacement(self) -> Floats:
        """Return D(t), nats per token, zero until the onset."""
        exponent = np.clip(self.growth * (STEPS - self.acceleration), 0.0, 30.0)
        velocity = np.where(self.onset <= STEPS, np.minimum(self.slope * np.exp(exponent), LARGEST_STEP), 0.0)
        gone: Floats = np.minimum(np.cumsum(velocity) - velocity, 4.0)
        return gone


def draw_spiral(
    rng: np.random.Generator,
    *,
    onset: tuple[int, int] = (30, 170),
    decay: tuple[int, int] = (30, 100),
    slope: float = 0.0016,
    growth: tuple[float, float] = (0.06, 0.14),
) -> Spiral:
    """Draw a death; onsets are spread wide, so that no step number gives it away."""
    start = int(rng.integers(*onset))
    return Spiral(
        onset=start,
        acceleration=start + int(rng.integers(*decay)),
        slope=slope * float(rng.lognormal(0.0, 0.35)),
        growth=float(rng.uniform(*growth)),
        tolerance=float(rng.lognormal(np.log(0.15), 0.3)),
        steepness=float(rng.uniform(2.0, 3.5)),
        surge=float(rng.uniform(0.5, 0.9)),
        surge_delay=int(rng.integers(2, 9)),
    )


def take_down(latent: Latent, spiral: Spiral) -> Latent:
    """Let a learning run die; it ends a few steps after its collapse."""
    displacement = spiral.displacement()
    excess = np.maximum(displacement - displacement[spiral.acceleration], 0.0)
    damage = 1.0 / (1.0 + (excess / spiral.tolerance) ** spiral.steepness)
    surge = spiral.growth * np.maximum(STEPS - spiral.acceleration - spiral.surge_delay, 0.0)
    latent.quality = latent.quality * damage
    latent.entropy = latent.entropy + 0.9 * displacement
    latent.displaced = latent.displaced + 0.4 * displacement
    latent.log_grad = latent.log_grad + np.minimum(spiral.surge * surge, 4.0)
    latent.log_ratio = latent.log_ratio + np.minimum(0.6 * spiral.surge * surge, 8.0)
    latent.truncated = np.clip(latent.truncated + 0.4 * (1.0 - damage), 0.0, 1.0)
    latent.repetition = np.clip(latent.repetition + 0.3 * (1.0 - damage), 0.0, 1.0)
    latent.tools_valid = latent.tools_valid * (0.3 + 0.7 * damage)
    latent.onset, latent.acceleration = spiral.onset, spiral.acceleration
    collapse = latent.collapse
    latent.steps = HORIZON if collapse is None else min(HORIZON, collapse + TAIL_STEPS)
    return latent


def _stagnating(rng: np.random.Generator, *, prompts: int | None = None) -> Latent:
    """Return phase I: reward rises, likelihood and entropy stay."""
    return learning(rng, prompts=prompts, gain=(0.1, 0.35), entropy_drop=(0.0, 0.15))


def standard(rng: np.random.Generator) -> Latent:
    """Drift for 30 to 100 steps at about 0.0016 nat/token/step, then collapse within 18 to 40."""
    return take_down(_stagnating(rng), draw_spiral(rng))


def fast(rng: np.random.Generator) -> Latent:
    """Drift more than twice as fast, for 15 to 45 steps."""
    return take_down(_stagnating(rng), draw_spiral(rng, decay=(15, 45), slope=0.004, growth=(0.1, 0.2)))


def slow(rng: np.random.Generator) -> Latent:
    """Drift at 0.001 nat/token/step for 70 to 140 steps, and accelerate slowly."""
    return take_down(_stagnating(rng), draw_spiral(rng, decay=(70, 140), slope=0.001, growth=(0.05, 0.08)))


def small_batch(rng: np.random.Generator) -> Latent:
    """Die with 8 or 16 prompts a step: reward and likelihood are noise."""
    return take_down(_stagnating(rng, prompts=int(rng.choice([8, 16]))), draw_spiral(rng))


def resume(rng: np.random.Generator) -> Latent:
    """Die although the run was resumed from a checkpoint some steps back, before or while it drifts."""
    latent = take_down(_stagnating(rng), draw_spiral(rng, onset=(50, 170)))
    last = int(rng.integers(40, latent.acceleration))
    lost = int(rng.integers(3, 16))
    latent.resumes = [(last, lost)]
    cold = np.where(last - lost < STEPS, np.exp(-(STEPS - last + lost) / 3.0), 0.0)
    latent.log_grad = latent.log_grad + rng.uniform(0.4, 1.4) * cold
    return latent


def length_growth(rng: np.random.Generator) -> Latent:
    """Die while responses grow 1.5 to 3 times longer."""
    latent = take_down(_stagnating(rng), draw_spiral(rng))
    latent.length = latent.length * rng.uniform(1.5, 3.0) ** np.clip(STEPS / rng.uniform(100.0, 250.0), 0.0, 1.0)
    return latent


def late_onset(rng: np.random.Generator) -> Latent:
    """Begin to die only after step 180, after looking healthy for long."""
    return take_down(_stagnating(rng), draw_spiral(rng, onset=(180, 280)))


KINDS: dict[str, Kind] = {
    kind.__name__: kind for kind in (standard, fast, slow, small_batch, resume, length_growth, late_onset)
}
