"""Death spiral: likelihood accelerates away while gradients or ratios surge, in a run that was drifting."""

import math
from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.surge import Surge, update_channels, update_surge
from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.protocol import Acknowledgement, Finding, Observation, Severity
from monitor_server.detection.statistics.streaming import DrawUp

__all__ = ["DeathSpiral"]

LEAST_FACTORS = {"gradient": 1.25, "ratio": 1.12}
LEAST_EACH, MOST_EACH = 0.25, 5.0  # σ: both acceleration and surge are needed, and neither decides alone
# Nat per token, σ, σ: without the paired channel, or before its drift has warned.
LEAST_DRIFT, LEAST_SURGE, LEAST_LOSS = 0.08, 2.0, 2.0
LEVEL_ACCELERATION = 0.5  # weight: levels also accelerate when the prompts change
EXCUSED = 1.6  # factor on the threshold when the questions may have become harder
SUDDEN_ACCELERATION, SUDDEN_SURGE, SUDDEN_RISE = 12.0, 10.0, 0.05
MUTED_ROWS = 8  # an optimiser whose state has just been restored makes irregular updates
RELEASE_ROWS = 50
PAIRED_RULE, LEVEL_RULE, SUDDEN_RULE = "drift, acceleration and surge", "large drift and surge", "sudden"
LOSS_RULE = "large drift, surge and loss"
ARITHMETIC = {
    PAIRED_RULE: "W D (min(A, 5) + min(B, 5)) > 0.45 with A = c_d > 0.25, B = c_g + c_r > 0.25, D the paired drift, "
    "which has warned, and W its weight",
    LOSS_RULE: "D (min(B, 5) + min(L, 5)) > 0.45 with D > 0.08, the paired drift, B = c_g + c_r > 2, and L > 2, the "
    "loss of reward",
    LEVEL_RULE: "W D (A / 2 + B) > 1.4, or 2.24 where the reward fell first, with A = min(c_l, c_H), "
    "B = c_g + c_r > 2, D = sqrt(drawup(EMA(H)) drawup(EMA(-l))) > 0.08, and W the weight of the drift",
    SUDDEN_RULE: "A > 12, B = c_g + c_r > 10, and entropy has risen by 0.05 nat",
}


class DeathSpiral(StreamDetector):
    """Reports a critical finding when two mechanisms agree: the likelihood side accelerates, and the updates surge.

    Let c be a CUSUM of one-step prediction errors, in standard errors, at most 3 a row, against a lagged trend and
    median: c_l for −likelihood of correct responses, c_H for entropy, c_d for the paired entropy change (slack 0.6
    each); c_g for the log gradient norm before clipping and c_r for the log ratio tail (slack 0.8), each only while the
    median of 3 rows is 1.25 and 1.12 times the baseline. Norms, ratios and rewards do not accumulate, so their noise is
    treated as white. Acceleration A is c_d, or, without the paired channel, min(c_l, c_H) or the one that is observed.
    Surge B = c_g + c_r. Loss L is the CUSUM of −reward (slack 0.6). W is the weight of `Excess` in the drift detector
    that applies. The finding opens if

    - the paired channel is observed, `PairedDrift` warns, A and B > 0.25, and W · D · (min(A, 5) + min(B, 5)) > 0.45,
      with D the rise of the paired drift; or
    - it is observed, D > 0.08 nat, B and L > 2, and D · (min(B, 5) + min(L, 5)) > 0.45: the drift has begun to do
      damage; or
    - it is not observed, B > 2, D > 0.08 nat and W · D · (A / 2 + B) > 1.4, with
      D = √(draw-up of EMA₀.₂(H) · draw-up of EMA₀.₂(−l⁺)). The bound is 1.6 times as large if `LikelihoodDrift`
      suspects harder questions; or
    - A > 12, B > 10 and entropy has risen by 0.05 nat: a sudden failure, with or without a drift before.

    The second form needs no noise scale of the paired channel. The first updates of a run can make that scale so large
    that neither the drift nor its acceleration counts before the collapse. W is left out there: if the reward falls,
    the correct responses are fewer and more selected, and lose less than entropy gains. Harder questions lower the
    reward as well, but they do not move the paired channel, so this form is not used without that channel.

    A small drift therefore needs a violent surge, and a large drift a clear surge. The bound of 5 on either term
    prevents a false alarm on the acceleration of an exploration that is about to saturate. Entropy without likelihood
    can open the sudden kind only. The finding holds until 50 rows with B = 0 and D halved, or a rewind to before it
    opened; after an acknowledgement it holds until no rule is met. docs/detection-results.md lists its false alarms and
    leads. Failures that take 3 to 8 steps leave a lead of 0 to 6 steps with any method.

    Args:
        paired_drift: The drift on the paired channel. Its owner updates it before this detector, and saves it.
        likelihood_drift: The drift of the levels. Its owner updates it before this detector, and saves it.
        paired_threshold: W · D · (min(A, 5) + min(B, 5)), or D · (min(B, 5) + min(L, 5)), at which the finding opens,
            σ · nat.
        level_threshold: W · D · (A / 2 + B) at which the finding opens without the paired channel, σ · nat.

    Reference:
        arXiv 2512.04220, section 5.1 (phase III) and Definition 5.1.

    >>> from monitor_server.detection.engine import Engine
    >>> from monitor_server.detection.protocol import Observation
    >>> engine, opened = Engine(), []
    >>> for row in range(60):
    ...     drift, surge = 0.02 * max(0, row - 30), 3.0 if row >= 50 else 1.0
    ...     signals = {"entropy/mean": 0.4 + drift, "likelihood/correct": -0.4 - drift, "grad/norm": surge}
    ...     assessment = engine.update(Observation(step=row, signals=signals))
    ...     opened += [finding.step for finding in assessment.findings if finding.kind == "death_spiral"]
    >>> opened[0]
    51
    """

    kind = "death_spiral"
    severity = Severity.CRITICAL
    reads = ("entropy/mean", "likelihood/correct", "entropy/paired_delta", "grad/norm", "ratio/p999", "reward/mean")

    def __init__(
        self,
        paired_drift: PairedDrift,
        likelihood_drift: LikelihoodDrift,
        *,
        paired_threshold: float = 0.45,
        level_threshold: float = 1.4,
    ) -> None:
        super().__init__()
        self._thresholds = dict.fromkeys((PAIRED_RULE, LOSS_RULE), paired_threshold)
        self._thresholds |= {LEVEL_RULE: level_threshold, SUDDEN_RULE: SUDDEN_SURGE}
        self._paired_drift = paired_drift
        self._likelihood_drift = likelihood_drift
        self.warm_up = paired_drift.warm_up
        self.levels = {"entropy": DrawUp(0.2), "unlikelihood": DrawUp(0.2)}
        self.channels = {
            "entropy": Surge(turn=3, slack=0.6, floor=0.002),
            "unlikelihood": Surge(turn=4, slack=0.6, floor=0.002),
            "paired": Surge(turn=5, slack=0.6, floor=1e-5, trend=False),
            "gradient": update_surge(turn=6, floor=0.05, factor=LEAST_FACTORS["gradient"]),
            "ratio": update_surge(turn=7, floor=0.02, factor=LEAST_FACTORS["ratio"]),
            "loss": Surge(turn=1, slack=0.6, floor=0.01, length=60, lag=8, trend=False, momentum=False),
        }
        self.onset: int | None = None
        self.opened: int | None = None
        self.opened_attempt = 0
        self.opened_by = ""
        self.acknowledged = False
        self.peak = 0.0
        self.calm = 0
        self.muted = 0
        self.active = False
        self._measured: tuple[float, float, float] | None = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        if self.muted:
            self.muted -= 1
        channels, finite, step = self.channels, observation.finite, observation.step
        update_channels(channels, finite, step, muted=self.muted > 0)
        if not self.warm_up.lasts:
            self._update_levels(finite, step)
        self._measured = a, b, drift = self.acceleration, self.surge, self.drift
        rule = self._rule(a, b, drift)
        if rule:
            self._open(observation.step, drift, rule)
        elif self.active:
            self._release(b, drift)
        return [self._build_finding(observation, a, b, drift, rule)] if self.active else ()

    def _update_levels(self, finite: Mapping[str, float], step: int) -> None:
        entropy, likelihood = finite.get("entropy/mean"), finite.get("likelihood/correct")
        if entropy is not None:
            self.levels["entropy"].update(entropy, step)
        if likelihood is not None:
            self.levels["unlikelihood"].update(-likelihood, step)

    @property
    def measured(self) -> tuple[float, float, float]:
        """A, B and D at the newest step."""
        return (self.acceleration, self.surge, self.drift) if self._measured is None else self._measured

    @property
    def acceleration(self) -> float:
        """A: how far the likelihood side has moved beyond its prediction, in standard errors."""
        channels = self.channels
        if self._paired_drift.is_observed:
            return channels["paired"].value
        entropy = channels["entropy"].value
        if not entropy or not channels["unlikelihood"].history.seen:
            return entropy
        return min(channels["unlikelihood"].value, entropy)

    @property
    def surge(self) -> float:
        """B: how far gradient norm and ratios have moved beyond their prediction, in standard errors."""
        return self.channels["gradient"].value + self.channels["ratio"].value

    @property
    def loss(self) -> float:
        """L: how far the reward has fallen below its prediction, in standard errors."""
        return self.channels["loss"].value

    @property
    def drift(self) -> float:
        """D: how far the policy has drifted, in nats per token, by the best observed channel."""
        if self._paired_drift.is_observed:
            return max(0.0, self._paired_drift.rise)
        unlikelihood = self.levels["unlikelihood"].value
        return math.sqrt(max(0.0, self.levels["entropy"].value) * unlikelihood) if unlikelihood > 0.0 else 0.0

    def _rule(self, a: float, b: float, drift: float) -> str:
        if b == 0.0:
            return ""  # every rule needs a surge; most steps have none
        if self._paired_drift.is_observed:
            holds = {
                PAIRED_RULE: self._paired_drift.active and min(a, b) > LEAST_EACH,
                LOSS_RULE: drift > LEAST_DRIFT and b > LEAST_SURGE and self.loss > LEAST_LOSS,
            }
        else:
            holds = {LEVEL_RULE: drift > LEAST_DRIFT and b > LEAST_SURGE}
        rise = self._paired_drift.rise if self._paired_drift.is_observed else self.levels["entropy"].value
        holds[SUDDEN_RULE] = a > SUDDEN_ACCELERATION and rise > SUDDEN_RISE
        for rule, held in holds.items():
            if held and self._statistic(rule, a, b, drift) > self._threshold(rule):
                return rule
        return ""

    def _statistic(self, rule: str, a: float, b: float, drift: float) -> float:
        if rule == PAIRED_RULE:
            return self._paired_drift.excess.weight * drift * (min(a, MOST_EACH) + min(b, MOST_EACH))
        if rule == LOSS_RULE:
            return drift * (min(b, MOST_EACH) + min(self.loss, MOST_EACH))
        if rule == LEVEL_RULE:
            return self._likelihood_drift.excess.weight * drift * (LEVEL_ACCELERATION * a + b)
        return b

    def _threshold(self, rule: str) -> float:
        excused = rule == LEVEL_RULE and self._likelihood_drift.excused
        return self._thresholds[rule] * (EXCUSED if excused else 1.0)

    def _open(self, step: int, drift: float, rule: str) -> None:
        if not self.active:
            self.onset = min([s.cusum.since for s in self.channels.values() if s.cusum.since is not None], default=step)
            self.opened, self.opened_by, self.opened_attempt = step, rule, self.attempt or 0
        self.active, self.calm, self.peak = True, 0, max(self.peak, drift)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Hold the finding only while its rule holds, if it had opened by the acknowledged step."""
        if acknowledgement.kind == self.kind and self.active and self.opened is not None:
            seen = (acknowledgement.attempt, acknowledgement.step)
            self.acknowledged = self.acknowledged or (self.opened_attempt, self.opened) <= seen

    def _release(self, b: float, drift: float) -> None:
        self.calm = self.calm + 1 if b == 0.0 and drift <= self.peak / 2 else 0
        if self.acknowledged or self.calm >= RELEASE_ROWS:
            self._close()

    def _close(self) -> None:
        self.active, self.peak, self.calm = False, 0.0, 0
        self.acknowledged, self.onset, self.opened = False, None, None

    def _build_finding(self, observation: Observation, a: float, b: float, drift: float, rule: str) -> Finding:
        parts = {name: round(channel.value, 3) for name, channel in self.channels.items()}
        strongest = max(("gradient", "ratio"), key=lambda name: parts[name])
        begin = f"The policy has drifted by {drift:.2f} nat a token" if drift > 0.0 else "The likelihood changes fast"
        goes = f", accelerates (A = {a:.1f})," if a > LEAST_EACH else ""  # a large drift needs no acceleration
        if self.opened_by == LOSS_RULE:
            goes = f", loses reward (L = {self.loss:.1f}),"
        what = f"{begin}{goes} and the {strongest} surges (B = {b:.1f})"
        if not rule:
            measure = f"L = {self.loss:.1f}" if self.opened_by == LOSS_RULE else f"A = {a:.1f}"
            what = (
                f"The spiral that opened at step {self.opened} is held: the drift is now {drift:.2f} nat a token, "
                f"{measure} and B = {b:.1f}"
            )
        return self._finding(
            observation,
            f"{what}; a collapse usually follows within tens of steps.",
            signal="entropy/mean",
            baseline=self.channels["entropy"].history.baseline(),
            window=len(self.channels["entropy"].history.values),
            statistic=self._statistic(self.opened_by, a, b, drift),
            threshold=self._threshold(self.opened_by),
            acceleration=a,
            surge=b,
            drift=drift,
            parts=parts,
            rule=rule or "held",
            opened_by=self.opened_by,
            agreeing=[name for name, value in parts.items() if value > LEAST_EACH],
            onset=[self.onset, observation.step],
            arithmetic=ARITHMETIC[self.opened_by],
        )

    def _resume(self, step: int) -> None:
        self.muted = MUTED_ROWS
        if (
            self.opened is not None and step <= self.opened
        ):  # weights from before the finding opened are assessed afresh
            self._close()
        for channel in self.channels.values():
            channel.restart()
        for level in self.levels.values():
            if level.since is not None and step <= level.since:
                level.restart()

    def _rebaseline(self) -> None:
        self.channels["loss"].restart()
        for name, level in self.levels.items():
            self.channels[name].restart()
            level.restart()
