"""Joins the rollouts and the update of a step into one row, where a trainer prints them separately."""

from collections.abc import Iterator

from monitor_server.importers.formats.console.named_numbers import CONFIGURED
from monitor_server.importers.protocol import Row
from monitor_server.importers.signal_names import is_known, number, signal_of
from monitor_server.importers.steps import MAX_STEP

__all__ = ["SlimeRollouts", "TwoProcesses", "is_step"]

MAX_PENDING = 4096
# prime-rl's orchestrator and trainer each print steps; the orchestrator may be some steps ahead.
PRIME_LEVEL = "SUCCESS"
MAX_AHEAD = 16


def is_step(row: Row) -> bool:
    """Return whether a row is a training step, and not a configuration, an evaluation or the summary at the end.

    Configurations contain a learning rate, and evaluations a loss; a step has another signal, and no run time.
    """
    if "train_runtime" in row or any(key.startswith("eval_") for key in row):
        return False
    return any(is_known(key) and number(value) is not None and key not in CONFIGURED for key, value in row.items())


class SlimeRollouts:
    """Adds the numbers of slime's rollouts, which it prints first and numbers separately, to the next update's row."""

    def __init__(self) -> None:
        self._pending: dict[str, object] = {}
        self._rollout = 0

    def take(self, row: Row, rollout: int | None) -> Iterator[Row]:
        """Process the numbers of one line, with the number of their rollout, and yield any complete row."""
        if rollout is None:
            if is_step(row):
                yield {**self._pending, **row}
                self._pending = {}
            return
        if rollout != self._rollout:
            yield from self.close()
        self._rollout = rollout
        if len(self._pending) < MAX_PENDING:
            self._pending.update(row)

    def close(self) -> Iterator[Row]:
        """Yield the numbers that wait for an update that was not printed."""
        if is_step(self._pending):
            yield {**self._pending, "step": self._rollout}
        self._pending = {}


class TwoProcesses:
    """Joins the rollouts of prime-rl's orchestrator and the updates of its trainer into one row for each step.

    In the output of both, the orchestrator's steps come first and may be some steps ahead, so that the trainer's steps
    would seem to go back. The output of a single process needs no joining.
    """

    def __init__(self) -> None:
        self._rollouts: dict[int, Row] = {}  # the rollouts whose update was not printed yet
        self._has_updates = False
        self._newest = -1

    def take(self, row: Row | None, line: str) -> Iterator[Row]:
        """Process the row of one line, if it has one, and yield the complete rows."""
        if row is None:
            return
        signals, step = {signal_of(key) for key in row}, row["step"]
        is_update = bool(signals & {"loss/policy", "grad/norm"})
        if PRIME_LEVEL not in line or not isinstance(step, int) or is_update == ("reward/mean" in signals):
            yield row
        elif is_update:
            self._has_updates = True
            yield from self._before(step)
            yield {**self._rollouts.pop(step, {}), **row}
        else:
            if step <= self._newest:  # the run was resumed
                yield from self._before(MAX_STEP)
            self._newest = step
            self._rollouts[step] = row
            if len(self._rollouts) > MAX_AHEAD:
                yield from self._before(step if self._has_updates else MAX_STEP)

    def close(self) -> Iterator[Row]:
        """Yield the remaining rollouts; with a trainer, only the next one, because the others were not trained on.

        A log that is followed is read again later, when their updates are printed too.
        """
        left = list(self._before(MAX_STEP))
        yield from left[:1] if self._has_updates else left

    def _before(self, step: int) -> Iterator[Row]:
        for earlier in [each for each in self._rollouts if each < step]:
            yield self._rollouts.pop(earlier)
