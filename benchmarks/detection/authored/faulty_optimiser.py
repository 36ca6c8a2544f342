"""Faults of the optimiser: its rate, its advantages, its clipping, and the age of the responses it learns from."""

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
from benchmarks.detection.authored.latent import Latent
from benchmarks.detection.authored.noise import Floats, wander

__all__ = ["FAULTS"]

# What does not change while the same responses are trained on again.
_OF_RESPONSES = ("reward/", "length/", "tools/", "text/")


def rate_rise(rng: np.random.Generator, level: float) -> Latent:
    """Multiply the learning rate by the level from one step on."""
    latent = begin(rng)
    return _with_rate(latent, rng, level, np.where(after(latent) > 0.0, level, 1.0))


def rate_ramp(rng: np.random.Generator, level: float) -> Latent:
    """Let the learning rate rise to the level's multiple over 50 steps, in equal factors."""
    latent = begin(rng)
    return _with_rate(latent, rng, level, level ** np.clip((STEPS - (latent.onset or 0)) / 50.0, 0.0, 1.0))


def stale_responses(rng: np.random.Generator, level: float) -> Latent:
    """Train on each batch this many times, with nothing that limits the update: the queue of the sampler is stuck.

    In suite D eight passes took the divergence from the policy that sampled from 0.0014 to 0.02 to 0.05 nat.
    """
    latent = begin(rng)
    passes, start = round(level), latent.onset or 0
    step = STEPS.astype(int)
    age = np.where(step >= start, (step - start) % passes, 0)
    far = rng.uniform(5e-4, 2e-3) * age**1.5
    latent.log_ratio = latent.log_ratio + 0.15 * age**0.75
    latent.quality = latent.quality * loss(latent, rng.uniform(300.0, 1200.0) / level, harm=0.9 * (passes > 1))

    def reported(signals: dict[str, Floats]) -> dict[str, Floats]:
        held = {name: values[step - age] for name, values in signals.items() if name.startswith(_OF_RESPONSES)}
        moved = {name: signals[name] + far for name in ("kl/old", "mismatch/kl")}
        return signals | held | moved | {"ratio/ess_frac": signals["ratio/ess_frac"] / (1.0 + 2.0 * far)}

    latent.reported = reported
    return latent


def opposed_from_start(rng: np.random.Generator, level: float) -> Latent:
    """Give this share of the responses an advantage of the wrong sign from the first step on."""
    latent = begin_faulty(rng)
    spread = noise(rng, 0.03) * (level > 0.0)
    latent.advantage_corr = np.clip(1.0 - 2.0 * level + spread, -1.0, 1.0)
    latent.quality = latent.quality * (1.0 - 0.95 * level * (1.0 - np.exp(-STEPS / rng.uniform(20.0, 80.0))))
    return latent


def zero_rate(rng: np.random.Generator, level: float) -> Latent:
    """Multiply the learning rate by the level, 0 or nearly, from the first step on: the policy stays where it is."""
    latent = begin_faulty(rng)
    hold(latent, level)
    latent.reported = lambda signals: scale_update(signals, level, "lr", "kl/old", "kl/ref", "entropy/paired_delta")
    return latent


def frozen_ratio(rng: np.random.Generator, level: float) -> Latent:
    """Compute the old log-probabilities after the update: the divergence is its rounding, and nothing is clipped."""
    latent = begin_faulty(rng)
    latent.reported = lambda signals: scale_update(signals, level, "kl/old")
    return latent


def _with_rate(latent: Latent, rng: np.random.Generator, level: float, factor: Floats) -> Latent:
    """Let a policy move as a rate that is ``factor`` times as large lets it.

    In suite D ten times the rate tripled the paired change of entropy, forty times it took the gradient norm from 2.8
    to 8.6 and the paired change from 0.002 to 0.045 nat.
    """
    grown = np.log(factor)
    path = wander(rng, strength=2.0)
    velocity = np.diff(path, prepend=0.0) * (np.roll(factor, 1) ** 0.7 - 1.0)  # of the update before each step
    velocity[0] = 0.0
    left = loss(latent, rng.uniform(200.0, 600.0) / level, harm=1.0 - level ** -rng.uniform(0.3, 1.0))
    latent.entropy = latent.entropy + np.cumsum(velocity) + rng.uniform(0.0, 0.5) * (1.0 - left)
    latent.log_ratio = latent.log_ratio + rng.uniform(0.3, 0.6) * grown
    latent.log_grad = latent.log_grad + rng.uniform(0.0, 0.4) * grown
    latent.displaced = latent.displaced + rng.uniform(0.1, 0.5) * (1.0 - left)
    latent.quality = latent.quality * left
    latent.reported = lambda signals: signals | {"lr": signals["lr"] * factor}
    return latent


FAULTS = {
    "rate_rise": Fault(build=rate_rise, sound=1.0, levels=(3.0, 10.0, 40.0)),
    "rate_ramp": Fault(build=rate_ramp, sound=1.0, levels=(5.0, 20.0)),
    "stale_responses": Fault(build=stale_responses, sound=1.0, levels=(4.0, 8.0, 24.0)),
    "opposed_from_start": Fault(build=opposed_from_start, sound=0.0, levels=(0.6, 1.0)),
    "zero_rate": Fault(build=zero_rate, sound=1.0, levels=(0.0, 1e-3)),
    "frozen_ratio": Fault(build=frozen_ratio, sound=1.0, levels=(0.0, 1e-6)),
}
