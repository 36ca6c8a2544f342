"""The interface of an importer, and the report of the lines that it could not read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from monitor_server.text_safety.printable import printable

__all__ = ["Importer", "LogError", "ReadReport", "RecordedLog", "RecordedRow", "Row", "without_steps"]

# One logged row: the trainer's own keys and values. The step has a name of `signal_names.STEP_KEYS`, and the time in
# seconds since 1970 has the name ``_timestamp``; both may be absent.
Row = Mapping[str, object]

PROBLEMS_KEPT, PROBLEMS_SHOWN = 20, 3
# A run that is resumed goes back a few times. One that goes back in a tenth of its rows is not sorted by its steps.
LEAST_STEPS_BACK, ROWS_PER_STEP_BACK = 3, 10


class RecordedRow(dict[str, object]):
    """A step that a collector recorded: its keys are already names of signals.

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
    """A log cannot be read at all; the message names the file, the condition that must hold, and the next step."""


@dataclass(slots=True)
class ReadReport:
    """Events while a log was read: bytes, skipped places, and problems of its steps.

    The first 20 problems are kept with their places; all are counted, so that a damaged file uses no memory.

    Attributes:
        is_growing: Whether the log is being written, so that a last line whose end is missing is not read.
        bytes_read: Bytes so far.
        problems: The first problems.
        problem_count: The number of problems.
        repeated_rows: Rows with the step of the row before and other values, which are ignored.
        first_repeated: The first of these rows, counted from 1, and its step.
        numbered_rows: Rows with an impossible step.
        first_numbered: The first of these rows, counted from 1, and the value in place of its step.
        negative_rows: Rows with a step below 0, which are left out.
        first_negative: The first of these rows, counted from 1, and its step.
        foreign_rows: Rows of an evaluation or of another rank, which are left out.
        first_foreign: The first of these rows, counted from 1.
        impossible_shares: Shares below 0 or above 1; percentages, for example.
        first_impossible: The row of the first of these, counted from 1, its signal and the share.
        step_rows: Rows with a step, given or numbered.
        steps_back: Those of them whose step is lower than that of the row before, other than in a new epoch.
        restarts: Those of the rows with a lower step whose step is not above the first of the log.
        epochs_back: Those of the rows with a lower step whose whole epoch is higher than before.
        epoch_rows: Rows with which the steps of an epoch begin again, so that they are counted on.
        first_epoch: The first of these rows, counted from 1.
        is_thinned: Whether a collector has removed steps of the run, so that the log lacks steps of the live detection.
        is_quarantined: Whether a collector could not process the run any more, so that the log lacks its later steps.
    """

    is_growing: bool = False
    bytes_read: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    repeated_rows: int = 0
    first_repeated: tuple[int, int] | None = None
    numbered_rows: int = 0
    first_numbered: tuple[int, float] | None = None
    negative_rows: int = 0
    first_negative: tuple[int, float] | None = None
    foreign_rows: int = 0
    first_foreign: int | None = None
    impossible_shares: int = 0
    first_impossible: tuple[int, str, float] | None = None
    step_rows: int = 0
    steps_back: int = 0
    restarts: int = 0
    epochs_back: int = 0
    epoch_rows: int = 0
    first_epoch: int | None = None
    is_thinned: bool = False
    is_quarantined: bool = False

    def add_repeated(self, row: int, step: int) -> None:
        """Count a row whose values are ignored, because its step already has other values."""
        self.repeated_rows += 1
        self.first_repeated = self.first_repeated or (row, step)

    def add_numbered(self, row: int, given: float) -> None:
        """Count a row that was numbered by its place, because its step is impossible."""
        self.numbered_rows += 1
        self.first_numbered = self.first_numbered or (row, given)

    def add_negative(self, row: int, given: float) -> None:
        """Count a row that is left out, because its step is below 0."""
        self.negative_rows += 1
        self.first_negative = self.first_negative or (row, given)

    def add_foreign(self, row: int) -> None:
        """Count a row that is left out, because it belongs to an evaluation or to another rank."""
        self.foreign_rows += 1
        self.first_foreign = self.first_foreign or row

    def add_impossible_share(self, row: int, signal: str, share: float) -> None:
        """Count a share that no part of a whole can have."""
        self.impossible_shares += 1
        self.first_impossible = self.first_impossible or (row, signal, share)

    def add_epoch(self, row: int) -> None:
        """Count a row with which the steps of an epoch begin again."""
        self.epoch_rows += 1
        self.first_epoch = self.first_epoch or row

    @property
    def remarks(self) -> list[str]:
        """The first places that were skipped, how many there are, and the notes."""
        lines = [f"passed over: {problem}" for problem in self.problems[:PROBLEMS_SHOWN]]
        if self.problem_count > PROBLEMS_SHOWN:
            lines.append(f"{self.problem_count} places were passed over")
        return [*lines, *self.notes]

    @property
    def notes(self) -> list[str]:
        """Remarks about the steps for readers of the result, each one sentence."""
        notes = []
        if self.is_quarantined:
            notes.append(
                "the collector could not process this run after its last step here, and exported none of its later "
                "steps; mend the cause that GET /api/v1/runs/{id} names as quarantine_reason, and export the run again"
            )
        if self.is_thinned:
            notes.append(
                "retention had thinned the steps of this run before they were exported: phases and alerts may differ "
                "from those that the collector found; an export in JSON lines has them after the steps"
            )
        if self.first_repeated is not None:
            row, step = self.first_repeated
            notes.append(
                f"{_rows(self.repeated_rows)} the same step as the previous row but other values, first row {row:,} "
                f"with step {step}; the first value of each signal in a step counts. Log one row per step, or no step "
                "at all: then the rows are numbered"
            )
        if self.first_numbered is not None:
            row, given = self.first_numbered
            notes.append(
                f"{_rows(self.numbered_rows)} a step that is not a whole number below 2**53, first row {row:,} with "
                f"{given:g}; such a row is numbered by its place in the log. Log the optimiser step as the step"
            )
        if self.first_negative is not None:
            row, given = self.first_negative
            notes.append(
                f"{_rows(self.negative_rows)} a step below 0, first row {row:,} with {given:g}; such a row is left "
                "out, as the SDK drops it. Count the steps from 0"
            )
        if self.first_foreign is not None:
            notes.append(
                f"{_rows(self.foreign_rows)} the mark of an evaluation (split, mode or phase) or of a rank beside rank "
                f"0, first row {self.first_foreign:,}; such a row is left out. To examine it, write it to its "
                "own log, without the mark"
            )
        if self.first_impossible is not None:
            row, signal, share = self.first_impossible
            notes.append(
                f"{self.impossible_shares:,} shares of the log are not between 0 and 1, first row {row:,} with "
                f"{signal} = {share:g}, and the detectors cannot judge them. Log a share of one instead of "
                "a percentage, or name the right key with --map"
            )
        if self.first_epoch is not None:
            notes.append(
                f"{_rows(self.epoch_rows)} a lower step than the previous row and a later epoch, first row "
                f"{self.first_epoch:,}; from there on the steps are counted on from those of the epoch before. Log a "
                "step that counts through all epochs"
            )
        is_unsorted = self.steps_back * ROWS_PER_STEP_BACK > self.step_rows and self.steps_back > LEAST_STEPS_BACK
        if is_unsorted or self.restarts > LEAST_STEPS_BACK or self.epochs_back:
            notes.append(
                f"{_rows(self.steps_back)} a lower step than the previous row, and each begins a new attempt; in short "
                "attempts little or nothing is found. Sort the rows by their step, keep the rows of one run in one "
                "log, and log a step that counts through all epochs"
            )
        return notes

    def add_problem(self, path: Path, place: str, message: str) -> None:
        """Record that the part of a file at ``place`` was skipped, with the reason."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(f"{path.name}, {place}: {message}")


def _rows(count: int) -> str:
    return "1 row has" if count == 1 else f"{count:,} rows have"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLog:
    """One recorded run in a file or a folder.

    ``read`` opens it and yields its rows in the order of the log; it may be called again. ``aliases`` maps short names
    to the log's own keys, as the ``signals`` of a ``meta.json`` do. ``end`` is how a replay ends the run.
    """

    name: str
    path: Path
    format: str
    read: Callable[[ReadReport], Iterator[Row]]
    aliases: Mapping[str, str] | None = None
    end: Literal["finished", "stopped"] = "finished"


def without_steps(log: RecordedLog) -> str:
    """Return the message for a log in which no step was found, with what a step would look like."""
    is_of_file = log.path.name.startswith(log.name)  # the ending was removed, if the name comes from the file
    held = log.path if is_of_file else f"the run {printable(log.name, longest=60)!r} of {log.path}"
    return (
        f"{held} must hold at least one logged step; none was found in it as {log.format}. A step is a row with "
        "named numbers, such as {'step': 1, 'reward': 0.4}, a line with its step such as 'step 1 | reward 0.4', or a "
        "row under a heading step,reward (docs/importers.md)"
    )


class Importer(Protocol):
    """Reads one format.

    A format is recognised by its content: the first 64 KiB of the file, decompressed. The name decides only if the
    content does not. Reading is a stream: memory does not grow with the number of rows, except for formats that store
    one column after the other, which keep 16 to 40 bytes for each number. A damaged part costs only itself, and is
    reported with its place.
    """

    name: str
    is_specific: bool
    """Whether the content alone proves the format; a table or a console log might contain anything."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Return whether a file has this format."""

    def logs(self, path: Path) -> Iterator[RecordedLog]:
        """Yield the runs of a file; most files contain one.

        Raises:
            LogError: If the file cannot be read at all.
        """
