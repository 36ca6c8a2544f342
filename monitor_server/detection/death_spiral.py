"""The page: likelihood accelerates away and the gradient or the ratios surge, in a run that was already drifting."""

import math
from collections.abc import Mapping, Sequence

from monitor_server.detection.base import StreamDetector, finite, first_finite
from monitor_server.detection.likelihood_drift import LikelihoodDrift
from monitor_server.detection.paired_drift import PairedDrift
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Severity
from monitor_server.detection.stateful import Stateful
from monitor_server.detection.statistics import Cusum, History, median

__all__ = ["DeathSpiral"]

RATIOS = ("ratio/p999", "ratio/max")
# Rises in nats per token: the first opens the gate, the others stand in for A where the surge is this much larger.
SOFT_DRIFT, FAR_PAIRED, HARD_DRIFT, FAR_SURGE = 0.05, 0.08, 0.10, 2.0
SUDDEN_ACCELERATION, SUDDEN_SURGE = 12.0, 10.0
MUTED_ROWS = 8  # an optimiser that has just been restored jumps
RECENT = 3  # rows whose median must stand above the baseline, so that spikes do not count
RELEASE_ROWS = 50
LASTING_ROWS = 5  # of paired drift, before a surge alone may page: decay comes before acceleration


class DeathSpiral(StreamDetector):
    """Pages when two mechanisms agree: A, likelihood accelerates, and B, gradient norm or ratio tail surges.

    c is a CUSUM of one-step prediction errors, in standard errors, at most 3 a row, against a lagged trend and median:
    c_l for −likelihood of correct responses, c_H for entropy, c_d for the paired entropy change (slack 0.6 each); c_g
    for the log gradient norm before clipping and c_r for the log ratio tail (slack 0.8).
    A = max(min(c_l, c_H), min(max(c_l, c_H), c_d)), or the one there is, which may then page the sudden kind only;
    B = max(c_g if the median of 3 rows is 1.5 times the baseline, c_r if 1.22 times). Norms and ratios do not
    accumulate, so their noise is taken as white.
    Pages if drift was ever seen and A > 3 and B > 3; or both draw-ups > 0.10 nat, or a paired drift of 5 rows and
    0.08 nat, and B > 5; or A > 12 and B > 10, a sudden blow-up. Holds until 50 rows with B = 0 and the draw-up
    halved, or a rewind to before it opened; once a person has acknowledged it, until no rule is met.

    docs/detection-results.md has its false pages and leads at defaults: about one authored benign run in 50, and a
    median of 15 steps with the paired channel. Blow-ups that take 3 to 8 steps leave 0 to 6 steps, whatever the method.

    Reference:
        arXiv 2512.04220, section 5.1 (phase III) and Definition 5.1.
    """

    kind = "death_spiral"
    severity = Severity.CRITICAL
    reads = ("entropy/mean", "likelihood/correct", "entropy/paired_delta", "grad/norm", "ratio/p999")

    def __init__(self, *, acceleration: float = 3.0, surge: float = 3.0) -> None:
        super().__init__()
        self.acceleration = acceleration
        self.surge = surge
        self.paired = PairedDrift()
        self.level = LikelihoodDrift()
        self.channels = {
            "entropy": _Surge(turn=3, slack=0.6, floor=0.002),
            "unlikelihood": _Surge(turn=4, slack=0.6, floor=0.002),
            "paired": _Surge(turn=5, slack=0.6, floor=1e-5, trend=False),
            "gradient": _Surge(
                turn=6, slack=0.8, floor=0.05, momentum=False, length=60, lag=8, trend=False, least_rise=math.log(1.5)
            ),
            "ratio": _Surge(
                turn=7, slack=0.8, floor=0.02, momentum=False, length=60, lag=8, trend=False, least_rise=math.log(1.22)
            ),
        }
        self.drifted = False
        self.paired_rows = 0
        self.onset: int | None = None
        self.opened: int | None = None
        self.opened_attempt = 0
        self.opened_by = ""
        self.acknowledged = False
        self.peak = 0.0
        self.calm = 0
        self.muted = 0
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        drifts = [*self.paired.update(observation), *self.level.update(observation)]
        self.paired_rows = self.paired_rows + 1 if self.paired.active else 0
        self.muted = max(0, self.muted - 1)
        for name, value in _read(observation.signals).items():
            if not (self.muted and name in ("gradient", "ratio")):
                self.channels[name].update(value, observation.step)
        drift, _ = self.level.measure()
        self.drifted = self.drifted or bool(drifts) or drift > SOFT_DRIFT
        a, b = self._a(), self._b()
        rule = self._rule(a, b, drift)
        if rule:
            self._open(observation.step, drift, rule)
        elif self.active:
            self._release(b, drift)
        return [self._page(observation, a, b, drift, rule)] if self.active else ()

    def _a(self) -> float:
        value = {name: channel.value for name, channel in self.channels.items()}
        if not self.channels["unlikelihood"].history.seen:
            return max(value["entropy"], value["paired"])
        stronger = max(value["unlikelihood"], value["entropy"])
        return max(min(value["unlikelihood"], value["entropy"]), min(stronger, value["paired"]))

    def _b(self) -> float:
        return max(self.channels["gradient"].value, self.channels["ratio"].value)

    def _rule(self, a: float, b: float, drift: float) -> str:
        if self.drifted and self._is_corroborated() and a > self.acceleration and b > self.surge:
            return "drift, acceleration and surge"
        far = self.level.has_likelihood and drift > max(HARD_DRIFT, self.level.measure()[1])
        if far and b > self.surge + FAR_SURGE:
            return "large drift and surge"
        lasting = self.paired_rows > LASTING_ROWS and self.paired.rise > FAR_PAIRED
        if lasting and b > self.surge + FAR_SURGE:
            return "paired drift and surge"
        if a > SUDDEN_ACCELERATION and b > SUDDEN_SURGE:
            return "sudden"
        return ""

    def _is_corroborated(self) -> bool:
        """Tell whether more than one likelihood-side channel is observed; one alone may only page a sudden blow-up."""
        return sum(bool(self.channels[name].history.seen) for name in ("entropy", "unlikelihood", "paired")) > 1

    def _open(self, step: int, drift: float, rule: str) -> None:
        if not self.active:
            self.onset = min([s.cusum.since for s in self.channels.values() if s.cusum.since is not None], default=step)
            self.opened, self.opened_by, self.opened_attempt = step, rule, self.attempt or 0
        self.active, self.calm, self.peak = True, 0, max(self.peak, drift)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Hold the page no longer than its rule is met, if it had opened by the step acknowledged."""
        if acknowledgement.kind == self.kind and self.active and self.opened is not None:
            seen = (acknowledgement.attempt, acknowledgement.step)
            self.acknowledged = self.acknowledged or (self.opened_attempt, self.opened) <= seen

    def _release(self, b: float, drift: float) -> None:
        self.calm = self.calm + 1 if b == 0.0 and drift <= self.peak / 2 else 0
        if self.acknowledged or self.calm >= RELEASE_ROWS:
            self._stand_down()

    def _stand_down(self) -> None:
        self.active, self.drifted, self.peak, self.calm = False, False, 0.0, 0
        self.acknowledged, self.onset, self.opened = False, None, None

    def _page(self, observation: Observation, a: float, b: float, drift: float, rule: str) -> Finding:
        parts = {name: round(channel.value, 3) for name, channel in self.channels.items()}
        strongest = max(("gradient", "ratio"), key=lambda name: parts[name])
        rise = self.paired.rise
        far = {
            "large drift and surge": f"Likelihood and entropy have drifted far ({drift:.2f} nat a token)",
            "paired drift and surge": f"Entropy on the same contexts has drifted far ({rise:.2f} nat a token)",
        }.get(self.opened_by)
        return self._finding(
            observation,
            f"{far or f'Likelihood accelerates away (A = {a:.1f})'} while the {strongest} surges (B = {b:.1f}); "
            "a collapse usually follows within tens of steps.",
            signal="entropy/mean",
            baseline=self.channels["entropy"].history.baseline(),
            window=len(self.channels["entropy"].history.values),
            statistic=b if far else min(a, b),
            threshold=self.surge + FAR_SURGE if far else self.acceleration,
            acceleration=a,
            surge=b,
            drift=drift,
            parts=parts,
            rule=rule or "held",
            opened_by=self.opened_by,
            agreeing=[name for name, value in parts.items() if value > self.acceleration],
            onset=[self.onset, observation.step],
            arithmetic="A = max(min(c_l, c_H), min(max(c_l, c_H), c_d)) > 3 and B = max(c_g, c_r) > 3; "
            "after a drift that went far, B > 5 alone",
        )

    def _resume(self, step: int) -> None:
        self.muted = MUTED_ROWS
        if self.opened is not None and step <= self.opened:  # weights from before the page are judged afresh
            self._stand_down()
        for channel in self.channels.values():
            channel.restart()

    def _rebaseline(self) -> None:
        for name in ("entropy", "unlikelihood"):
            self.channels[name].restart()


class _Surge(Stateful):
    """A CUSUM of prediction errors, counted only while the recent median stands clear of the baseline."""

    def __init__(
        self,
        *,
        slack: float,
        floor: float,
        length: int = 45,
        lag: int = 5,
        trend: bool = True,
        least_rise: float = -math.inf,
        turn: int,
        momentum: bool = True,
    ) -> None:
        self.trend = trend
        self.least_rise = least_rise
        self.history = History(length=length, lag=lag, floor=floor, turn=turn, momentum=momentum)
        self.cusum = Cusum(slack=slack, cap=3.0)

    def update(self, x: float, step: int) -> None:
        innovation = self.history.innovation(x, trend=self.trend)
        self.history.append(x)
        if innovation is not None:
            self.cusum.update(innovation, step)

    @property
    def value(self) -> float:
        baseline = self.history.baseline()
        if baseline is None or median(list(self.history.values)[-RECENT:]) - baseline < self.least_rise:
            return 0.0
        return self.cusum.value

    def restart(self) -> None:
        self.history.clear()
        self.cusum.reset()


def _read(signals: Mapping[str, float]) -> dict[str, float]:
    """Give the channels that this step holds, each so that up is bad."""
    entropy, likelihood = finite(signals, "entropy/mean"), finite(signals, "likelihood/correct")
    paired, gradient = finite(signals, "entropy/paired_delta"), finite(signals, "grad/norm")
    ratio = first_finite(signals, RATIOS)
    found = {
        "entropy": entropy,
        "unlikelihood": None if likelihood is None else -likelihood,
        "paired": paired,
        # A norm of exactly 0 is a batch of dead groups, not a small gradient.
        "gradient": math.log(gradient) if gradient is not None and gradient > 0.0 else None,
        "ratio": math.log(ratio[1]) if ratio is not None and ratio[1] > 0.0 else None,
    }
    return {name: value for name, value in found.items() if value is not None}
