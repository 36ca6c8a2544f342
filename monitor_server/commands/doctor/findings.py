"""One check of the doctor, and its result."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["DoctorFinding", "Level"]


class Level(StrEnum):
    """The level of a finding, from the best to the worst."""

    OK = "ok"
    NOT_OBSERVED = "not observed"
    """It could not be checked, which does not mean that it is well."""
    WARNING = "warning"
    """It works today, but will be or may be a problem."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """The result of one check.

    Attributes:
        level: Its level.
        about: The subject, such as ``disk``.
        text: The finding, in one line.
        advice: The next step; empty if there is none.
    """

    level: Level
    about: str
    text: str
    advice: str = ""
