"""The runs that every suite gives to the scorer: observations with the truth about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from monitor_server.detection.protocol import Observation

__all__ = ["Group", "LabelledRun", "Truth"]


class Group(StrEnum):
    """The use of a run in the scores: false alarms, the lead before a slow collapse, other failures, or faults.

    A fault has one named cause and an onset. It need not end in a collapse, so no lead is measured on it.
    """

    BENIGN = "benign"
    DISPLACEMENT = "displacement"
    FAILURE = "failure"
    FAULT = "fault"
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The true steps of a failure; None for a part that did not happen.

    ``onset`` is where the failure begins (t₁, phase II of a displacement run), ``acceleration`` where phase III
    begins (t₂), ``collapse`` the first step of the collapse (T_c). onset ≤ acceleration ≤ collapse.
    ``is_language_model`` is false for the few real logs of other reinforcement learning.
    """

    group: Group
    kind: str
    onset: int | None = None
    acceleration: int | None = None
    collapse: int | None = None
    is_language_model: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRun:
    """One run, row by row in the order in which a collector would see it, with its truth."""

    name: str
    truth: Truth
    observations: Sequence[Observation]
