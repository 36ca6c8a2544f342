"""Matched pairs: a run that dies, and one of the same seed that shows the same until t₂ and lives.

A detector that tells the two apart before t₂ reads something else than the failure; after t₂ it must beat chance.
"""

import numpy as np

from benchmarks.detection.authored.displacement import draw_spiral, take_down
from benchmarks.detection.authored.latent import Latent, learning

__all__ = ["TWINS", "dying", "exploring", "harder_prompts"]


def dying(rng: np.random.Generator) -> Latent:
    """Die as a standard displacement run does."""
    return take_down(learning(rng, gain=(0.1, 0.35), entropy_drop=(0.0, 0.15)), draw_spiral(rng))


def exploring(rng: np.random.Generator) -> Latent:
    """Drift as `dying` does until t₂, every signal alike, then level off: exploration that saturates."""
    return _survive(rng, in_policy=True)


def harder_prompts(rng: np.random.Generator) -> Latent:
    """Show what `dying` shows until t₂, but from harder prompts: the policy, and the paired channel, stay put."""
    return _survive(rng, in_policy=False)


def _survive(rng: np.random.Generator, *, in_policy: bool) -> Latent:
    latent = learning(rng, gain=(0.1, 0.35), entropy_drop=(0.0, 0.15))
    spiral = draw_spiral(rng)
    displacement = spiral.displacement()
    excess = np.maximum(displacement - displacement[spiral.acceleration], 0.0)
    settled = displacement - excess + 0.05 * (1.0 - np.exp(-excess / 0.05))
    if in_policy:
        latent.entropy = latent.entropy + 0.9 * settled
    else:
        latent.mix = latent.mix + 0.9 * settled
    latent.displaced = latent.displaced + 0.4 * settled
    return latent


TWINS = {"exploring": exploring, "harder_prompts": harder_prompts}
