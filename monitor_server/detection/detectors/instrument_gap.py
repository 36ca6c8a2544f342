"""Instrument gap: the trainer's own numbers are not the ones that a second computation gives."""

from collections.abc import Sequence

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["InstrumentGap"]

LOGPROB, ENTROPY, MASK = "instrument/logprob_abs", "instrument/entropy_abs", "instrument/mask_frac"


class InstrumentGap(StreamDetector):
    """Warns when reported and recomputed numbers differ by more than rounding in three successive comparisons.

    The bound of log-probabilities and entropies is 0.05 nat per token. bfloat16 keeps 8 bits, so a logit between 16 and
    32 is rounded by up to 2⁻⁴ = 0.0625. If both computations round it at random, independently of each other, their
    mean difference is 2/3 · 0.0625 = 0.042 nat. The bound of the mask is 0, because a mask is not rounded. Three
    comparisons are required, because one may contain a response that is unlike all others. The finding holds between
    comparisons, and ends after two successive ones without a gap.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(InstrumentGap(), {"instrument/logprob_abs": [0.001, 0.3, 0.28, 0.31]})
    [(3, 'instrument_gap', 'warning')]
    """

    kind = "instrument_gap"
    severity = Severity.WARNING
    reads = (LOGPROB, ENTROPY, MASK)
    ROWS, QUIET_ROWS = 3, 2
    BOUNDS = {LOGPROB: 0.05, ENTROPY: 0.05, MASK: 0.0}  # noqa: RUF012 - not changed

    def __init__(self) -> None:
        super().__init__()
        self.wrong_steps: list[int] = []  # the newest successive comparisons with a gap, at most ROWS
        self.since: int | None = None  # the first comparison of the finding that holds
        self.opened: int | None = None
        self.quiet = 0
        self.gaps: dict[str, float] = {}  # of the newest comparison with a gap

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        seen = {name: observation.finite[name] for name in self.reads if name in observation.finite}
        if seen:
            self._compare(observation.step, {name: gap for name, gap in seen.items() if gap > self.BOUNDS[name]})
        return [self._build_finding(observation)] if self.opened is not None else ()

    def _compare(self, step: int, gaps: dict[str, float]) -> None:
        """Take the gaps of one comparison, empty where there is none."""
        if not gaps:
            self.wrong_steps, self.quiet = [], self.quiet + 1
            if self.quiet >= self.QUIET_ROWS:
                self.opened = self.since = None
            return
        self.gaps, self.quiet = gaps, 0
        self.wrong_steps = [*self.wrong_steps, step][-self.ROWS :]
        if len(self.wrong_steps) >= self.ROWS and self.opened is None:
            self.opened, self.since = step, self.wrong_steps[0]

    def _build_finding(self, observation: Observation) -> Finding:
        name, *others = self.gaps
        return self._finding(
            observation,
            f"{_describe(name, self.gaps[name])}; comparisons fail since step {self.since}, so other findings may be "
            "wrong.",
            signal=name,
            baseline=0.0,
            window=self.ROWS,
            statistic=self.gaps[name],
            threshold=self.BOUNDS[name],
            agreeing=others,
            missing=[],
            onset=[self.since, self.since],
            arithmetic=f"{name} > {self.BOUNDS[name]:g}, or another gap beyond its bound, in {self.ROWS} successive "
            "comparisons",
        )

    def _resume(self, step: int) -> None:
        if self._replaces_rows(step):
            self.wrong_steps = [wrong for wrong in self.wrong_steps if wrong < step]
            if self.opened is not None and step <= self.opened:
                self.opened = self.since = None


def _describe(name: str, gap: float) -> str:
    if name == MASK:
        return f"The trainer's mask disagrees with the token ids on {gap:.3g} of the tokens"
    what = "log-probabilities" if name == LOGPROB else "entropies"
    return f"The trainer's {what} differ from recomputed ones by {gap:.3g} nat per token"
