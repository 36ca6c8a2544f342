"""The hidden state of an authored run, and the learning that all kinds start from. Nothing here is measured yet."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.authored.noise import HORIZON, Floats, wander

__all__ = ["Kind", "Latent", "Reported", "collapse_step", "learning"]

DEFAULT_STEPS = 300

Reported = Callable[[dict[str, Floats]], dict[str, Floats]]  # from the signals of a sound run to those that are logged


@dataclass(slots=True, kw_only=True)
class Latent:
    """What truly goes on at every step; arrays have ``HORIZON`` entries, of which the first ``steps`` happen.

    ``entropy`` is the policy's, on fixed contexts, nats per token; ``mix`` is what the prompts of the step add to
    it; ``displaced`` is lost log-likelihood of correct responses beyond the entropy's rise, nats per token.
    ``quality`` is the true success rate; ``proxy`` is what the reward shows on top of it (reward hacking).
    """

    prompts: int
    group_size: int
    steps: int
    quality: Floats
    proxy: Floats
    entropy: Floats
    mix: Floats
    displaced: Floats
    log_grad: Floats
    log_ratio: Floats
    log_mismatch: Floats
    length: Floats
    truncated: Floats
    tool_calls: Floats
    tools_valid: Floats
    control_prob: Floats
    repetition: Floats
    selection: float
    warmup: int = 5
    tail: float = 8.0
    noise: float = 1.0
    stride: int = 1
    resumes: list[tuple[int, int]] = field(default_factory=list)  # (last step of the attempt, steps lost)
    data_changes: list[int] = field(default_factory=list)
    absent_rows: set[int] = field(default_factory=set)
    absent_values: float = 0.0  # share of single values that are missing
    bad_from: int | None = None  # first step with a non-finite loss
    advantage_corr: Floats | None = None  # of advantages and rewards within a group; None where it is not measured
    reported: Reported | None = None  # what a faulty part logs in place of the signals; None where nothing is faulty
    unobserved: dict[str, NDArray[np.bool_]] = field(default_factory=dict)  # steps at which a signal has no value
    onset: int | None = None
    acceleration: int | None = None

    @property
    def collapse(self) -> int | None:
        """The first step of the collapse, or None."""
        return collapse_step(self.quality, bad_from=self.bad_from)


Kind = Callable[[np.random.Generator], Latent]


def learning(
    rng: np.random.Generator,
    *,
    prompts: int | None = None,
    gain: tuple[float, float] = (0.1, 0.45),
    settling: tuple[float, float] = (30.0, 150.0),
    entropy_drop: tuple[float, float] = (0.0, 0.5),
    wander_strength: float = 1.0,
    momentum: tuple[float, float] = (0.5, 0.75),
) -> Latent:
    """Return a run that learns: reward rises and settles, entropy falls by a share ``entropy_drop`` of its start.

    Args:
        rng: Draws everything that distinguishes one run of a kind from another.
        prompts: Prompts a step; drawn from 32 to 512 where None.
        gain: Range of the total rise of the success rate.
        settling: Range of the time constant of learning, steps.
        entropy_drop: Range of the entropy's total relative fall.
        wander_strength: Scale of the policy's aimless movement.
        momentum: Range of the autocorrelation of its velocity.
    """
    t = np.arange(HORIZON, dtype=np.float64)
    start_entropy = float(np.clip(rng.lognormal(np.log(0.5), 0.4), 0.2, 1.2))
    settle = 1.0 - np.exp(-t / rng.uniform(*settling))
    start, rise = rng.uniform(0.08, 0.35), rng.uniform(*gain)
    drop = 1.0 - rng.uniform(*entropy_drop) * (1.0 - np.exp(-t / rng.uniform(40.0, 200.0)))
    fidget = wander(rng, strength=wander_strength, momentum=momentum)
    calls = rng.uniform(1.0, 2.5) * (1.0 + 0.1 * settle)
    validity = 1.0 - rng.uniform(0.03, 0.15) * (1.0 - 0.6 * settle)
    return Latent(
        prompts=prompts if prompts is not None else int(rng.choice([32, 64, 128, 256, 512])),
        group_size=int(rng.choice([5, 8, 16])),
        steps=DEFAULT_STEPS,
        quality=np.clip(start + rise * settle, 0.01, 0.95),
        proxy=np.zeros(HORIZON),
        entropy=start_entropy * drop + fidget,
        mix=np.zeros(HORIZON),
        displaced=np.zeros(HORIZON),
        log_grad=np.log(rng.lognormal(np.log(0.6), 0.7)) + rng.uniform(-0.3, 0.2) * settle,
        log_ratio=np.full(HORIZON, rng.uniform(0.5, 1.5)),
        log_mismatch=np.full(HORIZON, np.log(rng.uniform(2e-4, 2e-3))),
        length=rng.uniform(150.0, 900.0) * (1.0 + rng.uniform(-0.15, 0.3) * settle),
        truncated=np.full(HORIZON, rng.uniform(0.0, 0.05)),
        tool_calls=calls,
        tools_valid=validity,
        control_prob=np.full(HORIZON, rng.uniform(0.95, 0.995)),
        repetition=np.full(HORIZON, rng.uniform(0.02, 0.08)),
        selection=rng.uniform(0.0, 0.2),
        warmup=int(rng.integers(0, 11)),
        tail=float(rng.choice([4.0, 8.0, np.inf])),
    )


def collapse_step(quality: Floats, *, bad_from: int | None = None) -> int | None:
    """Return T_c: the first step where EMA₀.₂(success) < half of its running maximum for at least 10 steps.

    A non-finite loss is a collapse at once (detection.md, section 1).
    """
    smooth = np.empty_like(quality)
    smooth[0] = quality[0]
    for t in range(1, len(quality)):
        smooth[t] = 0.8 * smooth[t - 1] + 0.2 * quality[t]
    low = smooth < 0.5 * np.maximum.accumulate(smooth)
    lasting = np.convolve(low, np.ones(10), mode="valid") >= 10  # noqa: PLR2004 - the ten steps of the definition
    found = np.flatnonzero(lasting)
    steps = [int(found[0])] if len(found) else []
    return min([*steps, *([] if bad_from is None else [bad_from])], default=None)
