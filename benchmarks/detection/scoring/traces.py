"""The output of a candidate on a run: one mark a row, and the steps at which its alarms open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.runs import Truth
from monitor_server.detection.protocol import Observation, Phase

__all__ = ["LEVELS", "PHASES", "Candidate", "Mark", "Opening", "Replay", "Trace"]

PHASES = tuple(Phase)
LEVELS = ("warn", "page")


class Opening(NamedTuple):
    """A finding at a row at which an episode opens: its kind, its summary, and whether it is critical."""

    step: int
    kind: str
    summary: str
    is_page: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A candidate's output on one row: the strength of its warning and its page (1 = its threshold), and its phase.

    Our engine also gives the findings of the row, of severity warning and above.
    """

    warn: float = 0.0
    page: float = 0.0
    phase: Phase | None = None
    found: Sequence[Opening] = ()


Replay = Callable[[Sequence[Observation]], Sequence[Mark]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that is scored: its name, and a function that reads a run from a fresh start, row by row."""

    name: str
    replay: Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The marks of one candidate on one run, as arrays over rows."""

    run: str
    truth: Truth
    steps: NDArray[np.int32]
    warn: NDArray[np.float32]
    page: NDArray[np.float32]
    phases: NDArray[np.int8]  # index into PHASES, −1 where the candidate names none
    opened: Sequence[Opening] = ()  # what our engine found where a warning or a page opens

    @classmethod
    def of(cls, run: str, truth: Truth, steps: Sequence[int], marks: Sequence[Mark]) -> Self:
        """Pack the marks of a run.

        Raises:
            ValueError: If there is not one mark a row.
        """
        if len(steps) != len(marks):
            raise ValueError(f"a candidate must give one mark a row, got {len(marks)} for {len(steps)} rows of {run}")
        trace = cls(
            run=run,
            truth=truth,
            steps=np.array(steps, dtype=np.int32),
            warn=np.array([mark.warn for mark in marks], dtype=np.float32),
            page=np.array([mark.page for mark in marks], dtype=np.float32),
            phases=np.array([-1 if m.phase is None else PHASES.index(m.phase) for m in marks], dtype=np.int8),
        )
        begin = {level: set(trace.openings(level).tolist()) for level in LEVELS}
        found = (opening for mark in marks for opening in mark.found)
        opened = (o for o in found if o.step in begin["warn"] or (o.is_page and o.step in begin["page"]))
        return replace(trace, opened=tuple(opened))

    def openings(self, level: str, *, threshold: float = 1.0) -> NDArray[np.int32]:
        """Return the steps at which an episode opens: the alarm holds on this row and did not on the row before.

        Args:
            level: ``"warn"`` or ``"page"``.
            threshold: The strength of an alarm, in units of the candidate's own threshold.
        """
        strength = self.warn if level == "warn" else self.page
        held = strength >= threshold
        return self.steps[held & ~np.concatenate(([False], held[:-1]))]
