"""The verdict in a receipt: the phase of the attempt at the newest step that detection has processed, and alerts."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec

from monitor_server.alerts.changes.stages import was_taken_back
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alerts import Alert
from monitor_server.store.repositories.runs import Run
from trainer_hooks import wire

__all__ = ["MOST_PASSED", "PASSED_SECONDS", "RecentVerdicts", "Verdict", "load_verdict", "read_passed", "read_verdict"]


# Well below the second that a trainer takes for a step.
VERDICT_SECONDS = 0.5
MAX_RECENT_VERDICTS = 4_096
# A trainer sends a batch at least every 15 s. Detection projects it within minutes, also after an outage.
PASSED_SECONDS = 600.0
MOST_PASSED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The phase and the alerts of a run after a step of one attempt; ``passed`` are the alerts that no longer fire."""

    attempt: int
    step: int | None
    phase: str
    alerts: Sequence[wire.AlertNotice]
    passed: Sequence[wire.AlertNotice] = ()

    def receipt_fields(self, attempt: int) -> dict[str, Any]:
        """Return the fields of a receipt for a trainer of an attempt; none if the verdict is about another attempt."""
        if self.attempt != attempt or self.step is None:
            return {}
        fields = {"phase": self.phase, "judged_step": self.step, "alerts": list(self.alerts)}
        return fields | {"passed": list(self.passed)} if self.passed else fields


def read_verdict(run: Run, firing: Sequence[Alert], passed: Sequence[Alert] = ()) -> Verdict:
    """Return the verdict on a run, with the firing alerts and those that fired a moment ago.

    An alert whose severity began at a later step belongs to an earlier attempt that has ended, and to weights that this
    attempt does not use. An alert of the clock means that the trainer was silent, and it has sent something now.
    """
    last_step = run.last_step
    passed = [alert for alert in passed if not was_taken_back(alert)]  # by a newer attempt
    alerts, others = (
        [
            _notice(alert)
            for alert in given
            if last_step is not None and not is_clock_kind(alert.kind) and alert.severity_step <= last_step
        ]
        for given in (firing, passed)
    )
    return Verdict(attempt=run.last_attempt, step=last_step, phase=run.phase, alerts=alerts, passed=others)


def read_passed(repositories: Repositories, run: Run, *, now: float) -> list[Alert]:
    """Return the newest alerts of the run's attempt that opened within ten minutes, fired and were resolved."""
    since = now - PASSED_SECONDS
    return repositories.alerts.passed(run.id, attempt=run.last_attempt, since=since, limit=MOST_PASSED)


def load_verdict(store: Store, run_id: str, *, now: float) -> Verdict | None:
    """Read the verdict on a run from the store; return None if there is no such run."""
    with store.read() as repositories:
        run = repositories.runs.find(run_id)
        if run is None:
            return None
        return read_verdict(run, repositories.alerts.firing(run_id), read_passed(repositories, run, now=now))


class RecentVerdicts:
    """The verdicts that were read from the store a moment ago, for receipts of runs that another process projects.

    Reading a verdict takes as long as appending a batch, and a trainer receives an alert by its next step in any case.
    The absence of a verdict is kept for the same time. Otherwise, while the projector is behind, each receipt would
    read the database and find nothing new.
    """

    def __init__(self, *, seconds: float = VERDICT_SECONDS, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._read: OrderedDict[str, tuple[float, Verdict | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._read)

    def is_recent(self, run_id: str) -> bool:
        """Whether the store was read for a run a moment ago."""
        read = self._read.get(run_id)
        return read is not None and self._clock() - read[0] < self._seconds

    def find(self, run_id: str) -> Verdict | None:
        """Return the verdict on a run that was read a moment ago; None if there was none, or it was not read."""
        return self._read[run_id][1] if self.is_recent(run_id) else None

    def keep(self, run_id: str, verdict: Verdict | None) -> None:
        """Keep the verdict that was just read; if there are too many, the one that was read longest ago is dropped."""
        self._read[run_id] = (self._clock(), verdict)
        self._read.move_to_end(run_id)
        if len(self._read) > MAX_RECENT_VERDICTS:
            self._read.popitem(last=False)


def _notice(alert: Alert) -> wire.AlertNotice:
    fields = {"kind": alert.kind, "severity": alert.severity, "summary": alert.summary}
    return msgspec.convert(fields | {"id": alert.id, "opened_step": alert.opened_step}, wire.AlertNotice)
