"""The life of an alert: opened by a finding, kept while it is found, resolved when it is not.

A finding that comes back opens another alert. Persistence is the detectors' business: an alert fires at once.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from monitor_server.detection.protocol import Finding
from monitor_server.store.alerts import Alert, Alerts

__all__ = ["SEVERITIES", "reconcile"]

SEVERITIES = ("info", "warning", "critical")


def reconcile(
    alerts: Alerts,
    findings: Sequence[Finding],
    *,
    run_id: str,
    phase: str,
    step: int,
    now: float,
    concerns: Callable[[str], bool],
) -> list[Alert]:
    """Bring a run's alerts to what is found at ``step``.

    Args:
        alerts: The alerts' repository.
        findings: All findings that hold; the most severe of a kind counts.
        run_id: The run.
        phase: Its phase, kept with alerts that open.
        step: The step at which the findings hold.
        now: Seconds since the epoch.
        concerns: Whether these findings speak of a kind at all; others are left alone.

    Returns:
        The alerts that opened, became more severe or resolved.
    """
    held: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        held[finding.kind] = finding
    changed: list[Alert] = []
    for alert in alerts.firing(run_id):
        if not concerns(alert.kind):
            continue
        found = held.pop(alert.kind, None)
        if found is None:
            kept = replace(alert, state="resolved", resolved_step=step)
        elif SEVERITIES.index(found.severity) > SEVERITIES.index(alert.severity):
            kept = replace(
                alert, severity=str(found.severity), last_step=step, summary=found.summary, evidence=found.evidence
            )
        else:
            alerts.save(replace(alert, last_step=step))
            continue
        alerts.save(kept)
        changed.append(kept)
    for finding in held.values():
        opened = Alert(
            id=uuid.uuid4().hex[:16],
            run_id=run_id,
            kind=finding.kind,
            severity=str(finding.severity),
            phase=phase,
            opened_step=step,
            last_step=step,
            opened_at=now,
            summary=finding.summary,
            evidence=finding.evidence,
        )
        alerts.add(opened)
        changed.append(opened)
    return changed
