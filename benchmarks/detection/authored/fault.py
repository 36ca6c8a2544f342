"""What all faults share: a run that learns, an onset, a level, and the success that is left."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.detection.authored.latent import Latent, learning
from benchmarks.detection.authored.noise import HORIZON, Floats

__all__ = [
    "STEPS",
    "Build",
    "Fault",
    "after",
    "begin",
    "begin_faulty",
    "hold",
    "loss",
    "noise",
    "only_every",
    "scale_update",
]

STEPS = np.arange(HORIZON, dtype=np.float64)

Build = Callable[[np.random.Generator, float], Latent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault at several levels.

    Attributes:
        build: Makes the run of a level. Its docstring says what the level is.
        sound: The level at which nothing is faulty: the run of the healthy twin.
        levels: The levels that are scored. They are round numbers over the range that recordings, public logs or
            reports of such mistakes show, and no detector's threshold has chosen them.
    """

    build: Build
    sound: float
    levels: tuple[float, ...]


def begin(rng: np.random.Generator) -> Latent:
    """Return a run that learns, with an onset between its steps 20 and 249."""
    latent = learning(rng)
    latent.onset = latent.acceleration = int(rng.integers(20, 250))
    return latent


def begin_faulty(rng: np.random.Generator) -> Latent:
    """Return a run that learns, and whose fault is there from the first step on."""
    latent = begin(rng)
    latent.onset = latent.acceleration = 0
    return latent


def after(latent: Latent) -> Floats:
    """Return 1 from the onset on, and 0 before it."""
    return ((latent.onset or 0) <= STEPS).astype(float)


def loss(latent: Latent, rows: float, *, harm: float) -> Floats:
    """Return the share of success left when a share ``harm`` of it goes around ``rows`` steps after the onset.

    1 − harm · σ((t − onset − rows) / (rows / 4)) after the onset, where the sigmoid begins at 0.02, and 1 up to it: the
    update of the onset's own step shows in the step after it.
    """
    onset = latent.onset or 0
    distance = (STEPS - onset - rows) / (rows / 4.0)
    return 1.0 - harm * (onset < STEPS) / (1.0 + np.exp(-np.clip(distance, -50.0, 50.0)))


def hold(latent: Latent, share: float | Floats) -> None:
    """Let a share of what the policy learns after the onset be left; at 0 it stays where it is."""
    start = latent.onset or 0
    for name in ("quality", "entropy", "length"):
        values = getattr(latent, name)
        setattr(latent, name, values[start] + share * (values - values[start]))


def scale_update(signals: dict[str, Floats], share: float | Floats, *names: str) -> dict[str, Floats]:
    """Return the signals with a share of the named ones, and of how far the ratios leave 1."""
    ratio, ess = signals["ratio/max"], signals["ratio/ess_frac"]
    return (
        signals
        | {name: signals[name] * share for name in names}
        | {
            "ratio/max": 1.0 + (ratio - 1.0) * share,
            "ratio/ess_frac": 1.0 - (1.0 - ess) * share,
            "ratio/clip_frac": signals["ratio/clip_frac"] * share,
        }
    )


def noise(rng: np.random.Generator, sd: float) -> Floats:
    """Return white noise over steps."""
    drawn: Floats = sd * rng.standard_normal(HORIZON)
    return drawn


def only_every(latent: Latent, rows: int, *names: str) -> None:
    """Let signals be observed at every so many steps only, the first one included."""
    for name in names:
        latent.unobserved[name] = STEPS % rows != 0
