"""The interface of an importer, and the report of the lines that it could not read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = ["Importer", "Log", "LogError", "ReadReport", "RecordedRow", "Row"]

# One logged row: the trainer's own keys and values. A step stands under a name of `keys.STEP_KEYS`, a time in seconds
# since 1970 under ``_timestamp``; both may be absent.
Row = Mapping[str, object]

PROBLEMS_KEPT = 20


class RecordedRow(dict[str, object]):
    """A step that a collector recorded: its keys are names of signals as they stand.

    Attributes:
        step: The step.
        attempt: The attempt, counted from 1.
        time: Seconds since 1970.
        data_version: The curriculum.
        acknowledged: The kinds of the alerts that people acknowledged after the step.
    """

    def __init__(
        self,
        signals: Mapping[str, float],
        *,
        step: int,
        attempt: int,
        time: float | None = None,
        data_version: str | None = None,
        acknowledged: tuple[str, ...] = (),
    ) -> None:
        super().__init__(signals)
        self.step = step
        self.attempt = attempt
        self.time = time
        self.data_version = data_version
        self.acknowledged = acknowledged


class LogError(OSError):
    """A log cannot be read at all; the message names the file, what must hold, and what to do."""


@dataclass(slots=True)
class ReadReport:
    """What happened while a log was read: bytes, and the places that were passed over.

    The first 20 problems are kept with their places; all are counted, so that a damaged file costs no memory.
    """

    bytes_read: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def add_problem(self, path: Path, place: str, message: str) -> None:
        """Record that the part of a file at ``place`` was passed over, and why."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(f"{path.name}, {place}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One recorded run in a file or a folder.

    ``read`` opens it and yields its rows in the order logged; it may be called again. ``aliases`` maps short names to
    the log's own keys, as the ``signals`` of a ``meta.json`` do.
    """

    name: str
    path: Path
    format: str
    read: Callable[[ReadReport], Iterator[Row]]
    aliases: Mapping[str, str] | None = None


class Importer(Protocol):
    """Reads one format.

    Recognition is by content: the first 64 KiB of the file, decompressed. A name decides only where the content cannot.
    Reading is a stream: memory does not grow with the number of rows, except for formats that store a column at once,
    which keep 16 bytes a number. A damaged part costs itself, and is reported with its place.
    """

    name: str
    is_specific: bool
    """Whether the content alone proves the format; a table or a console log might hold anything."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether a file has this format."""

    def logs(self, path: Path) -> Iterator[Log]:
        """Yield the runs of a file; most files hold one.

        Raises:
            LogError: If the file cannot be read at all.
        """
