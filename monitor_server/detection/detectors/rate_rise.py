"""Rate rise: the learning rate climbs above the level at which it had settled, which no schedule does on purpose."""

import math
from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.readings import list_missing
from monitor_server.detection.detector_parts.largest_sizes import LargestSizes
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["RateRise"]

RATE = "lr"
# The factor by which a signal must exceed its record to count as damage. Rates, distances and gradients have no natural
# scale.
DAMAGE: Mapping[str, float] = {
    "entropy/paired_delta": 2.0,
    "displacement/cross": 2.0,
    "kl/old": 3.0,
    "ratio/log_var": 3.0,
    "kl/ref": 3.0,
    "grad/norm": 2.0,
    "entropy/mean": 1.1,
}


class RateRise(StreamDetector):
    """Warns when the learning rate rises to 1.5 times the level at which it had settled; critical once it does damage.

    A schedule warms up, stays or falls, and may return to its peak. The rate has settled after five rows without a new
    highest value, and that value is the peak. It has risen if it is at three times the peak, or at 1.5 times the peak
    by the third new highest value: a log that rounds a long warm-up climbs in few, large steps.

    At three times the peak the finding is critical once a signal has exceeded its record in two rows: the largest size
    of up to 40 rows before the rise, times 1.1 for entropy, 2 for the paired change of entropy, the displacement and
    the gradient norm, and 3 for divergences and log-ratio variance. The finding ends when the rate is again under 1.5
    times the peak, or after 40 rows. A new attempt and new data may intend another rate, so the detector then begins
    anew.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> rate, entropy = [1e-6] * 12 + [1e-5] * 5, [0.30, 0.31, 0.29, 0.30] * 3 + [0.31, 0.5, 0.8, 1.1, 1.2]
    >>> episodes(RateRise(), {"lr": rate, "entropy/mean": entropy})
    [(12, 'learning_rate_rise', 'warning'), (14, 'learning_rate_rise', 'critical')]
    """

    kind = "learning_rate_rise"
    severity = Severity.WARNING
    reads = (RATE, *DAMAGE)
    skips_rows_without = True
    FACTOR, LARGE, SETTLED_ROWS, TOPS, HELD_ROWS, DAMAGED_ROWS, LEAST_ROWS = 1.5, 3.0, 5, 3, 40, 2, 4

    def __init__(self) -> None:
        super().__init__()
        self.records = LargestSizes(DAMAGE, least=self.LEAST_ROWS)
        self.top = 0.0  # the highest rate so far
        self.tops = 0  # new highest values since the rate had settled
        self.unchanged = 0  # rows without a new highest value
        self.peak: float | None = None
        self.opened: int | None = None
        self.rows = 0
        self.damaged: dict[str, int] = {}
        self.is_critical = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        rate = observation.finite.get(RATE)
        if rate is not None and rate > 0.0:
            self._follow(rate, observation.step)
        if self.opened is None:
            self.records.update(observation.signals)
            return ()
        self.rows += 1
        for name in self.records.find_exceeding(observation.finite):
            self.damaged[name] = self.damaged.get(name, 0) + 1
        is_large = self.peak is not None and self.top >= self.LARGE * self.peak
        if is_large and max(self.damaged.values(), default=0) >= self.DAMAGED_ROWS:
            self.is_critical = True
        finding = self._build_finding(observation)
        if self.rows >= self.HELD_ROWS:
            self._close()
            self.peak, self.tops = self.top, 0
        return [finding]

    def _follow(self, rate: float, step: int) -> None:
        """Follow the highest rate, and open or end the finding."""
        if rate > self.top:
            self.top, self.unchanged, self.tops = rate, 0, self.tops + 1
        else:
            self.unchanged += 1
        peak = math.inf if self.peak is None else self.peak
        if self.opened is not None:
            if rate < self.FACTOR * peak:
                self._close()
                self.top, self.tops = peak, 0
        elif rate >= self.LARGE * peak or (rate >= self.FACTOR * peak and self.tops >= self.TOPS):
            self.opened, self.rows = step, 0
        elif self.unchanged >= self.SETTLED_ROWS:
            self.peak, self.tops = self.top, 0

    def _build_finding(self, observation: Observation) -> Finding:
        peak = self.peak or 0.0
        damaged = sorted(name for name, rows in self.damaged.items() if rows >= self.DAMAGED_ROWS)
        moved = f", and with it moved: {', '.join(damaged)}" if damaged else ""
        factor = self.LARGE if self.is_critical else self.FACTOR
        return self._finding(
            observation,
            f"The learning rate had settled at {peak:.3g} and rose to {self.top:.3g} since step {self.opened}{moved}.",
            severity=Severity.CRITICAL if self.is_critical else self.severity,
            signal=RATE,
            baseline=peak,
            window=self.SETTLED_ROWS,
            statistic=self.top,
            threshold=factor * peak,
            agreeing=damaged,
            missing=list_missing(observation.finite, (RATE,)),
            onset=[self.opened, self.opened],
            arithmetic="lr >= 3 peak, or 1.5 peak by the third new highest value; critical: lr >= 3 peak, and a signal "
            "beyond its largest size of the 40 rows before, times its factor, in two rows",
        )

    def _close(self) -> None:
        self.opened, self.rows, self.damaged, self.is_critical = None, 0, {}, False

    def _resume(self, step: int) -> None:  # noqa: ARG002 - any new process may have another rate
        self._close()
        self.top, self.tops, self.unchanged, self.peak = 0.0, 0, 0, None

    def _rebaseline(self) -> None:
        self._resume(0)
        self.records.restart()
