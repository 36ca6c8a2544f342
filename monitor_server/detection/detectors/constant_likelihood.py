"""Constant likelihood: a mean log-probability is the same number in every row, so it is not computed from responses."""

from collections.abc import Mapping, Sequence

from monitor_server.detection.base_classes.preflight import PreflightDetector
from monitor_server.detection.base_classes.readings import first_finite
from monitor_server.detection.protocol import Finding, Observation, Severity

__all__ = ["ConstantLikelihood"]


class ConstantLikelihood(PreflightDetector):
    """Warns when the mean log-probability of a token is the same number in each of the first ten rows that hold it.

    Every row has other responses, so two means over them do not agree in all digits. A constant is a placeholder, a
    value that is not computed anew, or a mean over tokens that are the same in every row. Every detector of the
    likelihood side would read it as a run that stands still. Ten rows are needed because logs may be rounded: with two
    digits, the recorded runs of this repository begin with up to eight equal values.

    >>> from monitor_server.detection.base_classes.example_episodes import episodes
    >>> episodes(ConstantLikelihood(), {"likelihood/correct": [-0.4] * 10})
    [(9, 'impossible_likelihood', 'warning')]
    """

    kind = "impossible_likelihood"
    severity = Severity.WARNING
    reads = ("likelihood/correct", "likelihood/incorrect")
    rows = 10
    bound = 0.0
    rule = "difference of the mean log-probability from the first row = 0"

    def __init__(self) -> None:
        super().__init__()
        self.signal: str | None = None
        self.level: float | None = None

    def _resume(self, step: int) -> None:
        super()._resume(step)
        if self.first is None:
            self.signal = self.level = None

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        if self.signal is None and (found := first_finite(observation.finite, self.reads)):
            self.signal, self.level = found
        return super()._observe(observation)

    def _read(self, finite: Mapping[str, float]) -> tuple[str, float] | None:
        """Return the signal of the first row that held one, even where another one is observed."""
        return first_finite(finite, () if self.signal is None else (self.signal,))

    def _is_wrong(self, value: float) -> bool:
        return value == self.level

    def _describe(self, value: float) -> str:
        return f"The mean log-probability of a token is {value:.6g} and never changes"
