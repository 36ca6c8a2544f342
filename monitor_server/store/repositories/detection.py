"""The state of a run's detectors, and the phases of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from monitor_server.store.tables import detector_states, phases

__all__ = ["DetectorStates", "Phases", "SavedState"]


_SAVE = update(detector_states).where(detector_states.c.run_id == bindparam("run"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """A detector state in msgpack, and the last step that it has processed."""

    attempt: int
    step: int
    state: bytes


class DetectorStates:
    """Reads and writes one detector state a run."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self, run_id: str) -> SavedState | None:
        """Return the run's state, or None before its first step."""
        row = self._connection.execute(
            select(detector_states.c.attempt, detector_states.c.step, detector_states.c.state).where(
                detector_states.c.run_id == run_id
            )
        ).one_or_none()
        return None if row is None else SavedState(attempt=row.attempt, step=row.step, state=row.state)

    def remove(self, run_id: str) -> None:
        """Remove the run's state: its detectors start anew."""
        self._connection.execute(delete(detector_states).where(detector_states.c.run_id == run_id))

    def save(self, run_id: str, saved: SavedState, *, first: bool) -> None:
        """Write the run's state; ``first`` if there was none."""
        row = {"run_id": run_id, "attempt": saved.attempt, "step": saved.step, "state": saved.state}
        if first:
            self._connection.execute(insert(detector_states), row)
        else:
            self._connection.execute(_SAVE, row | {"run": run_id})


class Phases:
    """The phases of a run as intervals of steps, both ends included."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, run_id: str) -> Sequence[tuple[str, int, int | None]]:
        """Return phase, first and last step of each interval; the last step is None for the current phase."""
        query = (
            select(phases.c.phase, phases.c.from_step, phases.c.to_step)
            .where(phases.c.run_id == run_id)
            .order_by(phases.c.from_step)
        )
        return [(phase, from_step, to_step) for phase, from_step, to_step in self._connection.execute(query)]

    def begin(self, run_id: str, phase: str, *, step: int) -> None:
        """End the current phase before ``step`` and begin the next one; a phase that did not change continues."""
        here = phases.c.run_id == run_id
        last = self._connection.execute(
            select(phases.c.phase, phases.c.from_step).where(here).order_by(phases.c.from_step.desc()).limit(1)
        ).first()
        if last is not None:
            goes_on = last.phase == phase
            self._connection.execute(
                update(phases).where(here, phases.c.from_step == last.from_step),
                {"to_step": None if goes_on else step - 1},
            )
            if goes_on:
                return
        self._connection.execute(insert(phases), {"run_id": run_id, "phase": phase, "from_step": step})

    def rewind(self, run_id: str, step: int) -> None:
        """Remove the phases from ``step`` on, because a newer attempt passes through these steps again."""
        here = phases.c.run_id == run_id
        self._connection.execute(delete(phases).where(here, phases.c.from_step >= step))
        self._connection.execute(
            update(phases).where(here, phases.c.to_step.is_(None) | (phases.c.to_step >= step)), {"to_step": step - 1}
        )
