"""Recognises one run that is given as two logs: as an exact copy, or in two formats with other signals and digits."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor_server.detection.protocol import Observation

__all__ = ["DistinctLogs", "Fingerprint", "SameRun", "is_same_run"]

# What is measured in training: two runs that agree in one of these over many rows are one run. A schedule, such as the
# learning rate, is the same in many runs.
MEASURED = ("reward/mean", "grad/norm", "entropy/mean", "loss/policy", "kl/ref", "length/mean")
ROUNDING = 2e-3  # relative; logs in text have four digits or more, and TensorBoard has seven
LEAST_ROWS, LEAST_VALUES = 10, 8  # common rows of a signal, and different values among those that agree
LEAST_SHARE = 0.95  # of the common rows that must agree: runs that were forked agree up to the fork
MOST_ROWS = 512  # of a signal; beyond this number, those with the lowest places are kept
PLACES = 1 << 32
MULTIPLIER = 0x9E3779B1  # odd, and near the golden ratio of PLACES: it spreads steps, also every tenth one, evenly


@dataclass(slots=True)
class Fingerprint:
    """What a log has shown of its run.

    Attributes:
        signals: The names of all signals.
        series: Some values of the measured signals, by step. Two logs of a run keep the same steps, as far as both have
            them. Of a step that was repeated, the newest value counts.
    """

    signals: set[str] = field(default_factory=set)
    series: dict[str, dict[int, float]] = field(default_factory=dict)
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _bounds: dict[str, int] = field(default_factory=dict)  # of the places of the steps that are kept

    def update(self, observation: Observation) -> None:
        """Add a step."""
        self._digest.update(repr((observation.step, sorted(observation.signals.items()))).encode())
        self.signals.update(observation.signals)
        for signal in MEASURED:
            value = observation.finite.get(signal)
            bound = self._bounds.get(signal, PLACES)
            if value is None or _place(observation.step) >= bound:
                continue
            kept = self.series.setdefault(signal, {})
            kept[observation.step] = value
            if len(kept) > MOST_ROWS:
                self._bounds[signal] = bound = bound // 2
                self.series[signal] = {step: value for step, value in kept.items() if _place(step) < bound}

    @property
    def digest(self) -> str:
        """A digest of all steps and values, the same for exact copies alone."""
        return self._digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SameRun:
    """A run that was given as two logs.

    Attributes:
        left_out: The name of the log that does not count.
        reason: A sentence about the two logs, without its period.
    """

    left_out: str
    reason: str


class DistinctLogs:
    """The logs that count, one for each run."""

    def __init__(self) -> None:
        self._counted: dict[str, Fingerprint] = {}

    def add(self, name: str, fingerprint: Fingerprint) -> SameRun | None:
        """Add a log, and return the one that does not count if another log holds the same run.

        Of two formats the one with more signals counts, because its alarms are nearer to those of a live run; of equals
        the first one.
        """
        for first, other in self._counted.items():
            if fingerprint.digest == other.digest:
                return SameRun(left_out=name, reason=f"{name} has the steps of {first}, so it counts once")
            if is_same_run(fingerprint, other):
                kept, left_out = (name, first) if len(fingerprint.signals) > len(other.signals) else (first, name)
                if left_out == first:
                    del self._counted[first]
                    self._counted[name] = fingerprint
                reason = f"{name} has the values of {first} with other signals or digits, so only {kept} counts"
                return SameRun(left_out=left_out, reason=reason)
        self._counted[name] = fingerprint
        return None


def is_same_run(one: Fingerprint, other: Fingerprint) -> bool:
    """Return whether two logs hold the same run: whether a measured signal agrees in nearly all common steps.

    >>> first, second = Fingerprint(), Fingerprint()
    >>> for step in range(20):
    ...     first.update(Observation(step=step, signals={"reward/mean": 0.1 + step / 70.0, "lr": 1e-6}))
    ...     second.update(Observation(step=step, signals={"reward/mean": round(0.1 + step / 70.0, 4)}))
    >>> is_same_run(first, second)
    True
    """
    return any(_agree(one.series[name], other.series[name]) for name in one.series.keys() & other.series.keys())


def _place(step: int) -> int:
    return step * MULTIPLIER % PLACES


def _agree(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    steps = one.keys() & other.keys()
    most = math.floor((1.0 - LEAST_SHARE) * len(steps))
    differing, values = 0, set()
    for step in steps:
        a, b = one[step], other[step]
        if abs(a - b) > ROUNDING * max(abs(a), abs(b)):
            differing += 1
            if differing > most:
                return False
        else:  # a reward that stays 1 agrees in all runs, and only its first rows tell them apart
            values.add(f"{a:.2e}")
    return len(steps) >= LEAST_ROWS and len(values) >= LEAST_VALUES
