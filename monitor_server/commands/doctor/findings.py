"""One thing that the doctor has looked at, and how it is."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Level"]


class Level(StrEnum):
    """How a finding is, from the best to the worst."""

    OK = "ok"
    NOT_OBSERVED = "not observed"
    """It could not be looked at, which is not the same as being well."""
    WARNING = "warning"
    """It works today, and will be, or may be, a problem."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found.

    Attributes:
        level: How it is.
        about: What was looked at, such as ``disk``.
        text: What was found, in one line.
        advice: What to do; empty where nothing is to be done.
    """

    level: Level
    about: str
    text: str
    advice: str = ""
