"""Faults of the environment: the tools, the limits and the questions. The policy itself does not change at first."""

import numpy as np

from benchmarks.detection.authored.fault import STEPS, Fault, after, begin, begin_faulty, noise
from benchmarks.detection.authored.latent import Latent
from benchmarks.detection.authored.noise import Floats

__all__ = ["FAULTS"]


def tools_fail(rng: np.random.Generator, level: float) -> Latent:
    """Answer a share of the tool calls with an error; the policy then slowly stops calling."""
    latent = begin(rng)
    return _without_tools(latent, rng, level, is_valid=False)


def tools_silent(rng: np.random.Generator, level: float) -> Latent:
    """Answer a share of the tool calls with nothing: the calls stay valid (`tools/empty_frac` shows it)."""
    latent = begin(rng)
    usual = np.clip(rng.uniform(0.0, 0.1) + noise(rng, 0.01), 0.0, 1.0)
    empty = np.clip(usual + (1.0 - usual) * level * after(latent), 0.0, 1.0)
    latent.reported = lambda signals: signals | {"tools/empty_frac": empty}
    return _without_tools(latent, rng, level, is_valid=True)


def limit_lowered(rng: np.random.Generator, level: float) -> Latent:
    """Cut a share of the responses from one step on, as a lowered limit of tokens does."""
    latent = begin(rng)
    return _cut(latent, level * after(latent), rng)


def questions_lost(rng: np.random.Generator, level: float) -> Latent:
    """Send a share of the questions without their content: nothing right can be answered to them."""
    latent = begin(rng)
    lost = level * after(latent)
    latent.quality = latent.quality * (1.0 - 0.97 * lost)
    latent.mix = latent.mix + rng.uniform(0.03, 0.3) * lost
    latent.length = latent.length * (1.0 + rng.uniform(-0.4, 0.4) * lost)
    latent.tool_calls = latent.tool_calls * (1.0 + rng.uniform(-0.4, 0.4) * lost)
    return latent


def cut_from_start(rng: np.random.Generator, level: float) -> Latent:
    """Cut a share of the responses from the first step on: the limit is too low for the task."""
    latent = begin_faulty(rng)
    return _cut(latent, np.full_like(STEPS, level), rng)


def _cut(latent: Latent, cut: Floats, rng: np.random.Generator) -> Latent:
    latent.truncated = latent.truncated + (1.0 - latent.truncated) * cut
    latent.length = latent.length * (1.0 - rng.uniform(0.1, 0.6) * cut)
    latent.quality = latent.quality * (1.0 - rng.uniform(0.85, 1.0) * cut)
    return latent


def _without_tools(latent: Latent, rng: np.random.Generator, level: float, *, is_valid: bool) -> Latent:
    """Take away what needed tools, 70 to 100 % of the success, and let the policy lose its habit of calling them."""
    failing = level * after(latent)
    habit = np.exp(-np.maximum(STEPS - (latent.onset or 0), 0.0) / rng.uniform(30.0, 150.0))
    latent.quality = latent.quality * (1.0 - rng.uniform(0.7, 1.0) * failing)
    latent.mix = latent.mix + rng.uniform(-0.03, 0.1) * failing
    latent.tool_calls = latent.tool_calls * (1.0 - 0.8 * failing * (1.0 - habit))
    if not is_valid:
        latent.tools_valid = latent.tools_valid * (1.0 - failing)
    return latent


FAULTS = {
    "tools_fail": Fault(build=tools_fail, sound=0.0, levels=(0.3, 0.6, 1.0)),
    "tools_silent": Fault(build=tools_silent, sound=0.0, levels=(0.3, 0.6, 1.0)),
    "limit_lowered": Fault(build=limit_lowered, sound=0.0, levels=(0.3, 0.6, 0.98)),
    "questions_lost": Fault(build=questions_lost, sound=0.0, levels=(0.3, 0.6, 1.0)),
    "cut_from_start": Fault(build=cut_from_start, sound=0.0, levels=(0.9, 0.99)),
}
