"""The settings of a healthy run, drawn from its seed, so that healthy runs differ like those of several people."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

__all__ = ["Setting", "TrainerKind"]


class TrainerKind(StrEnum):
    """A trainer of TRL; its place is part of the seeds of its pairs."""

    GRPO = "grpo"
    """Its advantages are relative to the group, and it clips the ratio of each token."""
    RLOO = "rloo"
    """Its advantages are relative to the other responses, and it clips the ratio of whole responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One pair of runs: a failing run and its twin share all of this.

    Attributes:
        seed: The seed of the weights, the problems and the sampler.
        steps: Optimiser steps.
        onset: The first step of the failure.
        start: Quality of the warm start.
        options: Arguments of TRL's ``GRPOConfig``.
    """

    seed: int
    steps: int
    onset: int
    start: float
    options: dict[str, Any]

    @classmethod
    def drawn(cls, seed: int, *, ramp: int) -> "Setting":
        """Draw the settings of a seed.

        One pair in three is short: 40 steps, with an onset between step 8 and 15.

        Args:
            seed: Any integer from 0.
            ramp: Steps until the failure has its full level; the run must be longer.
        """
        random = np.random.default_rng([seed, 17])
        if random.random() < 1 / 3 and not ramp:
            onset, steps = int(random.integers(8, 16)), 40
        else:
            onset = int(random.integers(20, 35))
            steps = onset + max(30, ramp + 15)
        batch = int(random.choice([32, 48]))
        options = {
            "learning_rate": batch / 64 * float(random.choice([1.5e-4, 2.5e-4])),
            "per_device_train_batch_size": batch,
            "num_generations": int(random.choice([4, 8])),
            "num_iterations": int(random.choice([1, 1, 2])),
            "beta": float(random.choice([0.0, 0.0, 0.02])),
            "loss_type": str(random.choice(["dapo", "grpo", "dr_grpo"])),
        }
        return cls(seed=seed, steps=steps, onset=onset, start=float(random.uniform(0.1, 0.4)), options=options)
