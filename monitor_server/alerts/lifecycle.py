"""The life of an alert: opened by a finding, kept while it is found, resolved when it is not.

A finding that comes back opens another alert. Persistence is the detectors' business: an alert fires at once.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from monitor_server.detection.protocol import Finding, Severity
from monitor_server.store.repositories.alerts import Alert, Alerts

__all__ = ["AlertTransition", "Lifecycle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTransition:
    """A change of an alert that people are notified of; ``raised`` means that it has become more severe."""

    change: Literal["opened", "raised", "resolved"]
    alert: Alert
    at: float


class Lifecycle:
    """The alerts of one run while it is worked on; `save` writes what has changed.

    Attributes:
        transitions: What has happened to alerts so far, in order.
    """

    def __init__(self, alerts: Alerts, run_id: str) -> None:
        self._run_id = run_id
        self._firing = {alert.kind: alert for alert in alerts.firing(run_id)}
        self._unsaved: dict[str, Alert] = {}
        self.transitions: list[AlertTransition] = []

    @property
    def firing(self) -> list[Alert]:
        """The alerts that fire, the oldest first."""
        return list(self._firing.values())

    def reconcile(
        self, findings: Sequence[Finding], *, phase: str, step: int, now: float, concerns: Callable[[str], bool]
    ) -> list[Alert]:
        """Bring the alerts to what is found at ``step``.

        Args:
            findings: All findings that hold; the most severe of a kind counts.
            phase: The run's phase, kept with alerts that open.
            step: The step at which the findings hold.
            now: Seconds since the epoch.
            concerns: Whether these findings cover a kind at all; alerts of other kinds are left alone.

        Returns:
            The alerts that opened, became more severe or resolved.
        """
        held = {found.kind: found for found in sorted(findings, key=lambda found: found.severity.rank)}
        changed_alerts: list[Alert] = []
        for alert in [alert for alert in self.firing if concerns(alert.kind)]:
            changed = _update(alert, held.pop(alert.kind, None), step)
            self._unsaved[alert.id] = changed
            if changed.state == "firing":
                self._firing[alert.kind] = changed
            else:
                del self._firing[alert.kind]
            if (changed.state, changed.severity) != (alert.state, alert.severity):
                changed_alerts.append(changed)
                change: Literal["raised", "resolved"] = "raised" if changed.state == "firing" else "resolved"
                self.transitions.append(AlertTransition(change=change, alert=changed, at=now))
        for finding in held.values():
            opened = self._open(finding, phase=phase, step=step, now=now)
            self._unsaved[opened.id] = self._firing[finding.kind] = opened
            changed_alerts.append(opened)
            self.transitions.append(AlertTransition(change="opened", alert=opened, at=now))
        return changed_alerts

    def save(self, alerts: Alerts) -> None:
        """Write what has changed, in the order in which it began.

        An acknowledgement that was written since the alerts were read stays, unless the alert has become more severe.
        """
        stored = {alert.id: alert for alert in alerts.firing(self._run_id)} if self._unsaved else {}
        for alert in self._unsaved.values():
            known = stored.get(alert.id)
            if known is None:
                alerts.add(alert)
            elif known.severity_step == alert.severity_step:
                alerts.save(_acknowledged_as(alert, known))
            else:
                alerts.save(alert)
        self._unsaved.clear()

    def _open(self, finding: Finding, *, phase: str, step: int, now: float) -> Alert:
        return Alert(
            id=uuid.uuid4().hex[:16],
            run_id=self._run_id,
            kind=finding.kind,
            severity=str(finding.severity),
            phase=phase,
            opened_step=step,
            severity_step=step,
            last_step=step,
            opened_at=now,
            summary=finding.summary,
            evidence=finding.evidence,
        )


def _acknowledged_as(alert: Alert, other: Alert) -> Alert:
    at, by, note = other.acknowledged_at, other.acknowledged_by, other.note
    return replace(alert, acknowledged_at=at, acknowledged_by=by, note=note)


def _update(alert: Alert, found: Finding | None, step: int) -> Alert:
    if found is None:
        return replace(alert, state="resolved", resolved_step=step)
    if found.severity.rank <= Severity(alert.severity).rank:
        return replace(alert, last_step=step)
    # What was acknowledged was less severe: the more severe alert has to be acknowledged anew.
    return replace(
        alert,
        severity=str(found.severity),
        severity_step=step,
        last_step=step,
        summary=found.summary,
        evidence=found.evidence,
        acknowledged_at=None,
        acknowledged_by=None,
        note=None,
    )
