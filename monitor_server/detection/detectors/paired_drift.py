"""Paired drift: slow drift in the paired entropy change, the channel with the least noise."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.detector_parts.coverage import Coverage
from monitor_server.detection.detector_parts.drift_controls import DriftControls
from monitor_server.detection.detector_parts.excess_loss import ENTROPY, LIKELIHOOD, Excess
from monitor_server.detection.detector_parts.warm_up import WarmUp
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.streaming import Cusum

__all__ = ["PairedDrift"]

SIGNAL = "entropy/paired_delta"
STALE_ROWS = 5
TRAIL_ROWS = 64  # a rewind that goes back further forgets the drift


class PairedDrift(StreamDetector):
    """Warns when entropy on the same fresh contexts keeps rising from update to update.

    S ← max(0, S + clip(dH / σ, ±4) − 0.25). Here dH is the mean over held-out contexts of entropy after the update
    minus before it, and σ is its noise times the long-run factor √(1 + ρ) / (1 − ρ), because an optimiser's momentum
    makes neighbouring updates alike. Both models see the same contexts, so prompts, curriculum and length cancel.

    A drift must last and must matter: S > 6, the rise R = Σ dH since S left zero ≥ 0.03 nat, and W · S · R > 0.72. A
    small rise must therefore be very regular, and a large one need not be. W is the weight of `Excess`, above 1 if the
    likelihood of correct responses falls by more than entropy explains. The finding ends after 15 quiet rows (S < 2).
    From W · S · R > 0.4 on it is information, which sets the phase and causes no notification. Rows of a warm-up are
    left out. docs/detection-results.md lists its leads and its false alarms, most of them in explorations in which
    entropy truly rises and then saturates. `LikelihoodDrift` is for runs without the channel.

    Args:
        threshold: W · S · R at which to warn, σ · nat.
        display: W · S · R at which to inform, σ · nat.
        least_sum: S that is needed, in σ.
        least_rise: R that matters, in nats per token.

    Reference:
        arXiv 2512.04220, section 5.1 (phase II); Page, "Continuous inspection schemes" (1954).

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> change = [0.001 * (-1) ** row + (0.004 if row >= 20 else 0.0) for row in range(60)]
    >>> episodes(PairedDrift(), {"entropy/paired_delta": change})
    [(28, 'likelihood_drift', 'info'), (31, 'likelihood_drift', 'warning')]
    """

    kind = "likelihood_drift"
    severity = Severity.WARNING
    reads = (SIGNAL, ENTROPY, LIKELIHOOD)
    QUIET_ROWS, QUIET_DISPLAY_ROWS = 15, 5
    SLACK = 0.25

    def __init__(
        self, *, threshold: float = 0.72, display: float = 0.4, least_sum: float = 6.0, least_rise: float = 0.03
    ) -> None:
        super().__init__()
        self._threshold = threshold
        self._display = display
        self._least_sum = least_sum
        self._least_rise = least_rise
        self.history = History(length=80, lag=0, floor=1e-5)
        self.cusum = Cusum(slack=self.SLACK, cap=4.0)
        self.excess = Excess(turn=4)
        self.controls = DriftControls()
        self.unpaired = 0  # rows since the channel was observed
        self.coverage = Coverage()
        self.warm_up = WarmUp()
        self.rise = 0.0
        self.uncounted = 0  # the newest values of the history that the sum does not contain yet
        self.begun: int | None = None  # the step at which the first values were counted
        # Step, S and R of the newest rows, for a rewind: the drift up to that row still counts.
        self.trail: deque[list[float]] = deque(maxlen=TRAIL_ROWS)
        self.half_way: int | None = None
        self.quiet = 0
        self.suspected = False
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        if self.warm_up.update(observation):
            return ()
        if self.cusum.since is None:
            self.excess.mark()
            self.controls.mark()
        self.excess.update(observation)
        self.controls.update(observation)
        delta = observation.finite.get(SIGNAL)
        self.coverage.update(delta is not None)
        self.unpaired += 1
        if delta is None:
            return ()
        self.unpaired = 0
        self.history.append(delta)
        self.uncounted += 1
        if not self.history.has_scale:
            return ()
        # The scale is known after a few values. These values count as well, because fast failures take few rows.
        for value in (delta,) if self.uncounted == 1 else list(self.history.values)[-self.uncounted :]:
            self._accumulate(value, observation.step)
        self.uncounted, self.begun = 0, observation.step if self.begun is None else self.begun
        total = self.cusum.value
        if total > 0.0:
            self.trail.append([observation.step, total, self.rise])
        lasts = total > self._least_sum and self.rise >= self._least_rise
        statistic = self.statistic if lasts else 0.0
        self.quiet = self.quiet + 1 if total < self._least_sum / 3 else 0
        self.active = statistic > self._threshold or (self.active and self.quiet < self.QUIET_ROWS)
        self.suspected = statistic > self._display or (self.suspected and self.quiet < self.QUIET_DISPLAY_ROWS)
        return [self._build_finding(observation)] if self.active or self.suspected else ()

    @property
    def is_observed(self) -> bool:
        """Whether the channel is observed now and in most rows, and has been for long enough to estimate its noise."""
        return self.unpaired <= STALE_ROWS and self.history.has_scale and self.coverage.is_dense

    @property
    def statistic(self) -> float:
        """Duration times size, weighted: W · S · R."""
        return self.excess.weight * self.cusum.value * self.rise

    def _accumulate(self, delta: float, step: int) -> None:
        # A sum of 0 stays 0 while no value exceeds its slack, and the lower bound of the scale decides this in most
        # rows.
        if self.cusum.value == 0.0 and delta <= self.SLACK * self.history.least_scale:
            self.rise, self.half_way = 0.0, None
            return
        scale = self.history.scale or 1.0
        if self.cusum.update(delta / scale, step) == 0.0:
            self.rise, self.half_way = 0.0, None
            return
        self.rise += delta
        if self.half_way is None and self.cusum.value > self._least_sum / 2:
            self.half_way = step

    def _build_finding(self, observation: Observation) -> Finding:
        since = self.cusum.since if self.cusum.since is not None else observation.step
        latest = self.half_way if self.half_way is not None else observation.step
        excess, threshold = self.excess.errors, self._threshold if self.active else self._display
        return self._finding(
            observation,
            f"Entropy on the same held-out contexts has risen by {self.rise:.3f} nat per token since step {since}.",
            severity=self.severity if self.active else Severity.INFO,
            signal=SIGNAL,
            baseline=0.0,
            window=len(self.history.values),
            statistic=self.statistic,
            threshold=threshold,
            sigma=self.history.scale,
            sum=self.cusum.value,
            rise=self.rise,
            excess=excess,
            **self.controls.evidence(),
            agreeing=[LIKELIHOOD] if excess > 1.0 else [],
            onset=[since, latest],
            arithmetic="S = max(0, S + clip(dH / sigma, 4) - 0.25), R = sum of dH, W = exp(z / 4): S > 6, R > 0.03 and "
            f"W S R > {threshold:g}, z the rise of -l - H since then in standard errors, at most 3",
        )

    def take_back(self, rows: int, left: int) -> None:
        """Forget the newest values; those before them are counted once."""
        super().take_back(rows, left)
        self.uncounted = max(0, self.uncounted - rows)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; older versions saved no number, and had counted the values once there was a scale."""
        super().load(state)
        if "uncounted" not in state:
            has_scale = self.history.has_scale
            self.uncounted, self.begun = (0, -1) if has_scale else (len(self.history.values), None)

    def _rebaseline(self) -> None:
        self.excess.restart()
        self.controls.restart()

    def _resume(self, step: int) -> None:
        if not self._replaces_rows(step):
            return
        if self.begun is not None and step <= self.begun:
            self.begun, self.uncounted = None, len(self.history.values)
        while self.trail and self.trail[-1][0] >= step:
            self.trail.pop()
        if self.cusum.since is None or step <= self.cusum.since or not self.trail:
            self.cusum.reset()
            self.rise, self.half_way = 0.0, None
        else:
            _, self.cusum.value, self.rise = self.trail[-1]
        if self.half_way is not None and step <= self.half_way:
            self.half_way = None
        self.active = self.suspected = False
