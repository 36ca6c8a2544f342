"""Rules that anyone could write in twenty lines: every table holds them, and a detector must beat them."""

import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from math import isfinite, sqrt
from statistics import median

from benchmarks.detection.scoring.traces import Candidate, Mark, Trace
from monitor_server.detection.protocol import Observation

__all__ = ["baselines", "random_trace"]

Rule = Callable[[Observation], Mark]


def baselines() -> list[Candidate]:
    """Return all baselines but the random one, which needs a rate (`random_trace`)."""
    rules: dict[str, Callable[[], Rule]] = {
        "never": lambda: lambda _: Mark(),
        "always": lambda: lambda _: Mark(warn=1.0, page=1.0),
        "step 60": lambda: _at_step(60),
        "step 100": lambda: _at_step(100),
        "step 120": lambda: _at_step(120),
        "reward drop 20 % / 50 %": _RewardDrop,
        "gradient 3σ": _GradientSigma,
        "gradient doubled": _GradientDoubled,
        "z-score 30 rows 3σ / 6σ (W&B style)": _ZScore,
    }
    return [Candidate(name=name, replay=_streaming(rule)) for name, rule in rules.items()]


def random_trace(trace: Trace, *, warn_rate: float, page_rate: float) -> Trace:
    """Return the trace of a coin that alarms on single rows at given rates per row; the coin is the run's name."""
    coin = random.Random(trace.run)  # noqa: S311 - a benchmark's coin, not a secret
    marks = [Mark(warn=float(coin.random() < warn_rate), page=float(coin.random() < page_rate)) for _ in trace.steps]
    return Trace.of(trace.run, trace.truth, trace.steps.tolist(), marks)


def _streaming(rule: Callable[[], Rule]) -> Callable[[Sequence[Observation]], Sequence[Mark]]:
    def replay(observations: Sequence[Observation]) -> list[Mark]:
        fresh = rule()
        return [fresh(observation) for observation in observations]

    return replay


def _at_step(step: int) -> Rule:
    """Alarm from a step on: onsets that all lie near one step would make this look clever."""
    return lambda observation: Mark(warn=float(observation.step >= step), page=float(observation.step >= step))


class _RewardDrop:
    """Warn when EMA₀.₂ of the reward lies 20 % under its running maximum, page at 50 %; from row 5 on."""

    def __init__(self) -> None:
        self.rows, self.best = 0, 0.0
        self.smooth: float | None = None

    def __call__(self, observation: Observation) -> Mark:
        reward = observation.signals.get("reward/mean")
        if reward is None or not isfinite(reward):
            return Mark()
        self.rows += 1
        self.smooth = reward if self.smooth is None else 0.8 * self.smooth + 0.2 * reward
        self.best = max(self.best, self.smooth)
        if self.rows <= 5 or self.best <= 0.0:  # noqa: PLR2004 - the rows of the docstring
            return Mark()
        drop = 1.0 - self.smooth / self.best
        return Mark(warn=drop / 0.2, page=drop / 0.5)


class _GradientSigma:
    """Alarm when the gradient norm exceeds the mean of up to 30 rows before it by three standard deviations."""

    def __init__(self) -> None:
        self.window: deque[float] = deque(maxlen=30)

    def __call__(self, observation: Observation) -> Mark:
        norm = observation.signals.get("grad/norm")
        if norm is None or not isfinite(norm):
            return Mark()
        strength = 0.0
        if len(self.window) >= 10:  # noqa: PLR2004 - a spread of fewer rows is none
            mean, spread = _mean_and_spread(self.window)
            strength = (norm - mean) / (3.0 * (spread or 1e-12))
        self.window.append(norm)
        return Mark(warn=strength, page=strength)


class _GradientDoubled:
    """Alarm when the median of 5 gradient norms is twice the median of the 30 rows before them."""

    def __init__(self) -> None:
        self.window: deque[float] = deque(maxlen=35)

    def __call__(self, observation: Observation) -> Mark:
        norm = observation.signals.get("grad/norm")
        if norm is None or not isfinite(norm):
            return Mark()
        self.window.append(norm)
        if len(self.window) < 35:  # noqa: PLR2004 - the rows of the docstring
            return Mark()
        rows = list(self.window)
        strength = median(rows[30:]) / (2.0 * max(median(rows[:30]), 1e-12))
        return Mark(warn=strength, page=strength)


class _ZScore:
    """Warn when reward, entropy, gradient, KL or loss lies 3σ off the mean of its last 30 rows; page at 6σ."""

    SIGNALS = ("reward/mean", "entropy/mean", "grad/norm", "kl/old", "loss/policy")

    def __init__(self) -> None:
        self.windows: dict[str, deque[float]] = {name: deque(maxlen=30) for name in self.SIGNALS}

    def __call__(self, observation: Observation) -> Mark:
        worst = 0.0
        for name, window in self.windows.items():
            value = observation.signals.get(name)
            if value is None or not isfinite(value):
                continue
            if len(window) == window.maxlen:
                mean, spread = _mean_and_spread(window)
                worst = max(worst, abs(value - mean) / (3.0 * spread) if spread > 0.0 else 0.0)
            window.append(value)
        return Mark(warn=worst, page=worst / 2.0)


def _mean_and_spread(values: Collection[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the library's exact ones take longer than all detectors together."""
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / len(values))
