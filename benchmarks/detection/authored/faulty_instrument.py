"""Faults of the instrument: what is logged is not what the training does. Most of them harm the policy little or not.

Sound values: real logs have 0.005 to 0.013 nat between sampler and trainer; two computations of the same numbers in
bfloat16 differ by up to 0.01 nat.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.detection.authored.fault import Fault, after, begin, begin_faulty, loss, noise, only_every
from benchmarks.detection.authored.latent import Latent
from benchmarks.detection.authored.noise import Floats

__all__ = ["FAULTS"]

_LIKELIHOODS = ("likelihood/correct", "likelihood/incorrect", "likelihood/action0", "likelihood/action1")
_COMPARED = ("instrument/logprob_abs", "instrument/entropy_abs", "instrument/mask_frac")


def sampler_gap_from_start(rng: np.random.Generator, level: float) -> Latent:
    """Sample with another temperature, template or checkpoint: so many nats a token from the first step on."""
    latent = begin_faulty(rng)
    return _with_gap(latent, rng, level)


def sampler_gap(rng: np.random.Generator, level: float) -> Latent:
    """Let sampler and trainer differ by so many nats a token from one step on, as stale or rounded weights do.

    In suite D 0.02 nat came with a divergence of 0.001, 0.1 with 0.04, 0.34 with 0.2.
    """
    latent = begin(rng)
    latent.quality = latent.quality * loss(latent, rng.uniform(20.0, 120.0), harm=min(0.9, level))
    return _with_gap(latent, rng, level)


def feedback_in_mask(rng: np.random.Generator, level: float) -> Latent:
    """Count the tools' answers as tokens of the policy, in this share of the responses that had one."""
    latent = begin_faulty(rng)
    usual = np.clip(rng.uniform(0.02, 0.15) + noise(rng, 0.01), 0.0, 1.0)
    longer, unlikely = 1.0 + rng.uniform(0.5, 2.0) * level, rng.uniform(0.2, 1.0) * level
    latent.length = latent.length * longer
    latent.mix = latent.mix + 0.8 * unlikely
    latent.reported = lambda signals: (
        signals
        | {name: signals[name] - 0.2 * unlikely for name in _LIKELIHOODS}
        | {"tools/unbroken_frac": usual + (1.0 - usual) * level}
    )
    return latent


def likelihood_constant(rng: np.random.Generator, level: float) -> Latent:
    """Log the likelihoods of the first step (level 1) at every step."""
    latent = begin_faulty(rng)
    return _with_likelihoods(latent, lambda values: np.full_like(values, values[0]), level)


def likelihood_stuck(rng: np.random.Generator, level: float) -> Latent:
    """Log the likelihoods of one step (level 1) at all steps after it: they are no longer computed."""
    latent = begin(rng)
    start = latent.onset or 0
    return _with_likelihoods(latent, lambda values: np.where(after(latent) > 0.0, values[start], values), level)


def likelihood_sign(rng: np.random.Generator, level: float) -> Latent:
    """Log negative log-likelihoods (level 1) as if they were log-likelihoods."""
    latent = begin_faulty(rng)
    return _with_likelihoods(latent, np.negative, level)


def likelihood_zero(rng: np.random.Generator, level: float) -> Latent:
    """Log an array of zeros (level 1) for the likelihoods."""
    latent = begin_faulty(rng)
    return _with_likelihoods(latent, np.zeros_like, level)


def recomputed_logprobs(rng: np.random.Generator, level: float) -> Latent:
    """Log likelihoods that differ by so many nats a token from those of a second computation, from one step on."""
    latent = begin(rng)
    bias = level * rng.uniform(-0.7, 0.7) * after(latent)
    gap = level * np.exp(noise(rng, 0.1)) * after(latent)
    compared = _compared(latent, rng)
    latent.reported = lambda signals: (
        signals
        | {name: signals[name] + bias for name in _LIKELIHOODS}
        | compared
        | {"instrument/logprob_abs": compared["instrument/logprob_abs"] + gap}
    )
    return latent


def recomputed_mask(rng: np.random.Generator, level: float) -> Latent:
    """Mask this share of the tokens wrongly, from the first step on."""
    latent = begin_faulty(rng)
    wrong = np.clip(level * np.exp(noise(rng, 0.2)), 0.0, 1.0)
    compared = _compared(latent, rng) | {"instrument/mask_frac": wrong}
    latent.reported = lambda signals: signals | compared
    return latent


def entropy_misreported(rng: np.random.Generator, level: float) -> Latent:
    """Log this multiple of the entropy from one step on: 1.44 counts bits, a half averages over padding too."""
    latent = begin(rng)
    factor = np.where(after(latent) > 0.0, level, 1.0)
    compared = _compared(latent, rng)
    rounding = compared["instrument/entropy_abs"]
    latent.reported = lambda signals: (
        signals
        | compared
        | {name: signals[name] * factor for name in ("entropy/mean", "entropy/paired_delta")}
        | {"instrument/entropy_abs": rounding + signals["entropy/mean"] * np.abs(factor - 1.0)}
    )
    return latent


def _with_gap(latent: Latent, rng: np.random.Generator, level: float) -> Latent:
    usual = rng.uniform(0.004, 0.014) * np.exp(noise(rng, 0.1))
    gap = level * np.exp(noise(rng, 0.05)) * after(latent)
    latent.reported = lambda signals: (
        signals | {"mismatch/logprob_abs": usual + gap, "mismatch/kl": signals["mismatch/kl"] + 1.7 * gap**2}
    )
    return latent


def _with_likelihoods(latent: Latent, wrong: Callable[[Floats], Floats], level: float) -> Latent:
    names = (*_LIKELIHOODS, "likelihood/correct_seq")
    latent.reported = lambda signals: signals | {name: wrong(signals[name]) for name in names if level > 0.0}
    return latent


def _compared(latent: Latent, rng: np.random.Generator) -> dict[str, Floats]:
    """Return what a second computation finds in a sound run, at every first, fifth, tenth or twentieth step."""
    rounding = rng.uniform(5e-4, 0.01) * np.exp(noise(rng, 0.2))
    only_every(latent, int(rng.choice([1, 5, 10, 20])), *_COMPARED)
    return dict(zip(_COMPARED, (rounding, rounding, np.zeros_like(rounding)), strict=True))


FAULTS = {
    "sampler_gap_from_start": Fault(build=sampler_gap_from_start, sound=0.0, levels=(0.05, 0.2, 0.6)),
    "sampler_gap": Fault(build=sampler_gap, sound=0.0, levels=(0.05, 0.2, 0.6)),
    "feedback_in_mask": Fault(build=feedback_in_mask, sound=0.0, levels=(0.9, 1.0)),
    "likelihood_constant": Fault(build=likelihood_constant, sound=0.0, levels=(1.0,)),
    "likelihood_stuck": Fault(build=likelihood_stuck, sound=0.0, levels=(1.0,)),
    "likelihood_sign": Fault(build=likelihood_sign, sound=0.0, levels=(1.0,)),
    "likelihood_zero": Fault(build=likelihood_zero, sound=0.0, levels=(1.0,)),
    "recomputed_logprobs": Fault(build=recomputed_logprobs, sound=0.0, levels=(0.03, 0.1, 0.5)),
    "recomputed_mask": Fault(build=recomputed_mask, sound=0.0, levels=(0.01, 0.2)),
    "entropy_misreported": Fault(build=entropy_misreported, sound=1.0, levels=(0.5, 1.44)),
}
