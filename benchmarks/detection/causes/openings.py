"""What the alerts of a run name: the suspect of the first alert, warning and page, and of most alerts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Finding, Observation, Severity
from monitor_server.detection.suspects import Suspect, doubts, suspect_of

__all__ = ["MEASURES", "MOST_ROWS", "AlertOpening", "Naming", "name_suspects", "opened_alerts"]

MOST_ROWS = 40  # after the onset, within which the suspect of most alerts is counted
MEASURES = ("first part named", "first warning", "first page", f"most alerts within {MOST_ROWS} rows")


@dataclass(frozen=True, slots=True)
class AlertOpening:
    """An alert that opens, or that becomes more severe.

    Attributes:
        row: Rows from the onset to it.
        kind: Kind of the alert.
        severity: The severity that it reaches.
        suspect: What a reader is told to check first: the kind's suspect, or the instrument where an open alert of the
            run makes its numbers doubtful.
        is_new: Whether it opens, and does not only become more severe.
    """

    row: int
    kind: str
    severity: Severity
    suspect: Suspect
    is_new: bool


@dataclass(frozen=True, slots=True)
class Naming:
    """The suspect that is named, the kind of alert that names it, and the rows from the onset to it."""

    suspect: Suspect
    kind: str
    rows: int


def opened_alerts(observations: Sequence[Observation], onset: int = 0) -> list[AlertOpening]:
    """Run the engine over a run, and return each alert that opens or becomes more severe from the onset on.

    They are in the order of rows, which count from the first row at or after the step of the onset. Of the alerts of a
    row the most severe comes first, and of equally severe ones the strongest.

    Raises:
        ValueError: If the run has no row at or after the onset.
    """
    engine = Engine()
    held: Mapping[str, Finding] = {}
    alerts = []
    begin = next((row for row, observation in enumerate(observations) if observation.step >= onset), None)
    if begin is None:
        raise ValueError(f"the onset must lie in the run, got {onset} for a run of {len(observations)} rows")
    for row, observation in enumerate(observations):
        now = {finding.kind: finding for finding in engine.update(observation).findings}
        changed = [finding for finding in now.values() if _has_risen(finding, held.get(finding.kind))]
        changed.sort(key=lambda finding: (finding.severity.rank, finding.strength), reverse=True)
        for finding in changed:
            suspect = Suspect.INSTRUMENT if doubts(finding.kind, now) else suspect_of(finding.kind)
            is_new = finding.kind not in held
            alerts.append(AlertOpening(row - begin, finding.kind, finding.severity, suspect, is_new))
        held = now
    return [alert for alert in alerts if alert.row >= 0]


def name_suspects(alerts: Sequence[AlertOpening]) -> list[Naming | None]:
    """Return what the alerts since the onset name by each of `MEASURES`; None where there is no such alert.

    The first part that is named is that of the first alert of any severity whose suspect is not unknown. The suspect of
    most alerts is counted over those that open within `MOST_ROWS` rows. Unknown does not count beside a named one, and
    of two that are named equally often the one that is named first wins.

    Args:
        alerts: The alerts from the onset on, whose rows count from the onset.
    """
    early = [alert for alert in alerts if alert.is_new and alert.row <= MOST_ROWS]
    counted = Counter(alert.suspect for alert in early if alert.suspect is not Suspect.UNKNOWN)
    most = counted.most_common(1)[0][0] if counted else Suspect.UNKNOWN  # of equal counts, the one met first
    return [
        _first(alert for alert in alerts if alert.suspect is not Suspect.UNKNOWN),
        _first(alert for alert in alerts if alert.severity.rank >= Severity.WARNING.rank),
        _first(alert for alert in alerts if alert.severity is Severity.CRITICAL),
        _first(alert for alert in early if alert.suspect is most),
    ]


def _first(alerts: Iterable[AlertOpening]) -> Naming | None:
    alert = next(iter(alerts), None)
    return None if alert is None else Naming(alert.suspect, alert.kind, alert.row)


def _has_risen(finding: Finding, before: Finding | None) -> bool:
    return before is None or finding.severity.rank > before.severity.rank
