"""Base class of the pre-flight detectors: an error from the first step on is a mistake in the set-up."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from monitor_server.detection.base_classes.detector import StreamDetector
from monitor_server.detection.base_classes.readings import first_finite
from monitor_server.detection.protocol import Finding, Observation

__all__ = ["PreflightDetector"]


class PreflightDetector(StreamDetector):
    """Reports a condition that holds in every one of a run's first rows, for as long as it holds.

    The first row without the condition ends the check for the whole run. Other detectors handle a value that was once
    right and breaks later. Rows without the signal do not count. A resumed process is not checked again.

    Attributes:
        rows: Number of first rows in which the condition must hold.
        bound: The bound of the condition, as stated in the evidence.
        rule: The condition in words.
    """

    skips_rows_without = True
    rows: ClassVar[int] = 5
    bound: ClassVar[float]
    rule: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.wrong = 0
        self.first: int | None = None
        self.is_over = False

    @property
    def has_ended(self) -> bool:
        """Whether a row without the condition has ended the check."""
        return self.is_over

    def _observe(self, observation: Observation) -> Sequence[Finding]:
        found = None if self.is_over else self._read(observation.finite)
        if found is None:
            return ()
        name, value = found
        if not self._is_wrong(value):
            self.is_over = True
            return ()
        self.first = observation.step if self.first is None else self.first
        self.wrong += 1
        return [self._build_finding(observation, name, value)] if self.wrong >= self.rows else ()

    def take_back(self, rows: int, left: int) -> None:  # noqa: ARG002 - the rows that are left decide
        """Count no more rows than are left."""
        self.wrong = min(self.wrong, left)

    def _resume(self, step: int) -> None:
        if self.first is not None and step <= self.first:
            self.wrong, self.first = 0, None

    def _read(self, finite: Mapping[str, float]) -> tuple[str, float] | None:
        """Return the name and value by which this row is judged, or None if it is not observed."""
        return first_finite(finite, self.reads)

    def _is_wrong(self, value: float) -> bool:
        """Return whether the condition holds."""
        raise NotImplementedError

    def _describe(self, value: float) -> str:
        """Return the summary, without its period."""
        raise NotImplementedError

    def _build_finding(self, observation: Observation, name: str, value: float) -> Finding:
        return self._finding(
            observation,
            f"{self._describe(value)}, in all {self.wrong} rows since step {self.first}.",
            signal=name,
            baseline=None,
            window=self.wrong,
            statistic=float(self.wrong),
            threshold=float(self.rows),
            value=value,
            bound=self.bound,
            onset=[self.first, self.first],
            missing=[],
            arithmetic=f"{self.rule} in each of the first {self.rows} rows that hold it",
        )
