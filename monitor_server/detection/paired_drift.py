"""W1: slow drift in the paired entropy change, the quietest channel there is."""

from collections.abc import Sequence

from monitor_server.detection.base import StreamDetector, finite
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.statistics import Cusum, History

__all__ = ["PairedDrift"]

SIGNAL = "entropy/paired_delta"


class PairedDrift(StreamDetector):
    """Warns when entropy on the same fresh contexts keeps rising from update to update.

    S ← max(0, S + clip(dH / σ, ±4) − 0.25), where dH is the mean over held-out contexts of entropy after the update
    minus before it, and σ its noise times the long-run factor √((1 + ρ) / (1 − ρ)), for an optimiser's momentum makes
    neighbouring updates alike. A warning needs S > 7 and a rise of at least 0.06 nat since S left zero; it ends after
    25 quiet rows (S < 7/3). Both models see the same contexts, so prompts, curriculum and length cancel.

    The two bounds divide the work: σ keeps noise out, the rise keeps out what is too small to matter. At defaults
    it warns in about one authored benign run of thirty, mostly where exploration truly rises and then saturates, with a
    median lead of 45 steps on slow failures (docs/detection-results.md). Without the channel: `LikelihoodDrift`.

    Args:
        threshold: S at which to warn, in σ.
        least_rise: Cumulative rise that matters, in nats per token.

    Reference:
        arXiv 2512.04220, section 5.1 (phase II); Page, "Continuous inspection schemes" (1954).
    """

    kind = "likelihood_drift"
    severity = Severity.WARNING
    reads = (SIGNAL,)

    def __init__(self, *, threshold: float = 7.0, least_rise: float = 0.06) -> None:
        super().__init__()
        self.threshold = threshold
        self.least_rise = least_rise
        self.clear_below = threshold / 3
        self.quiet_rows = 25
        self.history = History(length=80, lag=0, floor=1e-5)
        self.cusum = Cusum(slack=0.25, cap=4.0)
        self.rise = 0.0
        self.half_way: int | None = None
        self.quiet = 0
        self.active = False

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        delta = finite(observation.signals, SIGNAL)
        if delta is None:
            return ()
        self.history.append(delta)
        if self.history.scale is None:
            return ()
        # The first scale comes with a handful of values waiting: they count too, for fast failures leave no spare rows.
        waiting = list(self.history.values) if self.history.seen == self.history.least else [delta]
        for value in waiting:
            self._accumulate(value, observation.step)
        above = self.cusum.value > self.threshold and self.rise >= self.least_rise
        self.quiet = self.quiet + 1 if self.cusum.value < self.clear_below else 0
        self.active = above or (self.active and self.quiet < self.quiet_rows)
        return [self._drift(observation)] if self.active else ()

    def _accumulate(self, delta: float, step: int) -> None:
        scale = self.history.scale or 1.0
        if self.cusum.update(delta / scale, step) == 0.0:
            self.rise, self.half_way = 0.0, None
            return
        self.rise += delta
        if self.half_way is None and self.cusum.value > self.threshold / 2:
            self.half_way = step

    def _drift(self, observation: Observation) -> Finding:
        since = self.cusum.since if self.cusum.since is not None else observation.step
        latest = self.half_way if self.half_way is not None else observation.step
        return self._finding(
            observation,
            f"Entropy on the same held-out contexts has risen by {self.rise:.3f} nat per token since step {since}.",
            signal=SIGNAL,
            baseline=0.0,
            window=len(self.history.values),
            statistic=self.cusum.value,
            threshold=self.threshold,
            sigma=self.history.scale,
            rise=self.rise,
            onset=[since, latest],
            arithmetic="S = max(0, S + clip(dH / sigma, 4) - 0.25)",
        )

    def _resume(self, step: int) -> None:
        if self.cusum.since is not None and step <= self.cusum.since:
            self.cusum.reset()
            self.rise, self.half_way, self.active = 0.0, None, False
