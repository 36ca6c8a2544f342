"""The alerts of one run during its projection: opened by a finding, kept while the finding holds, then resolved.

A finding that comes back opens another alert, which refers to the earlier one. Detectors decide how long a condition
must last before they report a finding; ``pending_steps`` of the settings asks for more steps, and
``keep_firing_steps`` joins findings that come and go into one alert.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from monitor_server.alerts.changes.saving import UnsavedChange, save_alert
from monitor_server.alerts.changes.stages import Change, Stage, advance
from monitor_server.alerts.changes.transitions import AlertTransition
from monitor_server.alerts.kinds import MONITOR_DEGRADED
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.detection.protocol import RULE_PREFIX, Finding, Severity
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.alert_history import HistoryEntry
from monitor_server.store.repositories.alerts import Alert

__all__ = ["Lifecycle"]

NO_REASONS: Final[Mapping[str, str]] = MappingProxyType({})


class Lifecycle:
    """The alerts of one run during its projection; `save` writes the changes.

    Attributes:
        transitions: The transitions so far, in order; after `save`, with the alerts as they were written.
    """

    def __init__(
        self, open_alerts: Iterable[Alert], run_id: str, *, pending_steps: int = 0, keep_firing_steps: int = 0
    ) -> None:
        """Begin with the open alerts of a run.

        Args:
            open_alerts: The open alerts of the run, of a snapshot or of a transaction; none where the run begins.
            run_id: The run.
            pending_steps: The number of further steps for which a finding must hold before it fires. Critical findings,
                findings of the clock, and findings of the user's own rules, which have their own duration, fire at
                once.
            keep_firing_steps: By how many steps a step may lie behind the last finding of an alert that is kept there.
                Critical alerts, and the findings that are never pending, are never kept.
        """
        self._run_id = run_id
        self._pending_steps = pending_steps
        self._keep_firing_steps = keep_firing_steps
        self._open_alerts = {alert.kind: alert for alert in open_alerts}
        self._unsaved: dict[str, Alert] = {}
        self._opened: dict[str, Alert] = {}
        self._changes: dict[str, list[UnsavedChange]] = {}
        self._saved: dict[str, Alert] = {}
        self.transitions: list[AlertTransition] = []

    @property
    def firing(self) -> list[Alert]:
        """The alerts that fire, the oldest first."""
        return [alert for alert in self._open_alerts.values() if alert.state == "firing"]

    @property
    def unsaved(self) -> list[Alert]:
        """The alerts that `save` would write, as they are now, in the order in which they changed first."""
        return list(self._unsaved.values())

    def has_other(self, kind: str, alert_id: str) -> bool:
        """Whether another alert of a kind is pending or fires."""
        alert = self._open_alerts.get(kind)
        return alert is not None and alert.id != alert_id

    def as_saved(self, alert: Alert) -> Alert:
        """Return an alert as `save` has written it, or as it was given."""
        return self._saved.get(alert.id, alert)

    def reconcile(
        self,
        findings: Sequence[Finding],
        *,
        phase: str,
        step: int,
        now: float,
        concerns: Callable[[str], bool],
        rewinds: bool = False,
        continues: bool = False,
        reasons: Mapping[str, str] = NO_REASONS,
    ) -> list[Alert]:
        """Open, update and resolve the alerts by the findings at ``step``.

        Args:
            findings: All findings that hold; the most severe of a kind counts.
            phase: The run's phase, kept with alerts that open.
            step: The step at which the findings hold.
            now: Seconds since the epoch.
            concerns: Whether these findings cover a kind; alerts of other kinds do not change.
            rewinds: Whether ``step`` begins an attempt that goes back. An alert that reached its severity at this step
                or later rests on steps that no longer count: it is resolved, and a finding that holds opens another.
            continues: Whether ``step`` is not the first of its attempt. Alerts are kept only at such a step.
            reasons: Why alerts of some kinds are resolved, if not because they are not found at ``step``.

        Returns:
            The alerts that opened, became more severe, fired after they were pending, or resolved.
        """
        held = {found.kind: found for found in sorted(findings, key=lambda found: found.severity.rank)}
        changed_alerts: list[Alert] = []
        # A step at which detection failed may have been the first of its attempt, so nothing is kept beyond it.
        may_keep = continues and MONITOR_DEGRADED not in self._open_alerts
        for alert in [alert for alert in self._open_alerts.values() if concerns(alert.kind)]:
            is_taken_back = rewinds and alert.severity_step >= step
            found = None if is_taken_back else held.pop(alert.kind, None)
            if found is None and may_keep and self._still_fires(alert, step):
                continue
            change = self._change(alert, found, step)
            changed = _update(alert, found, step)
            if change is None:
                self._note_changed(changed)
                continue
            why = reasons.get(alert.kind, f"not found at step {step}") if found is None else changed.summary
            if is_taken_back:
                why = f"the run went back to step {step}"
            changed = self._advance(changed, change, HistoryEntry(at=now, change=change, step=step, why=why))
            changed_alerts.append(changed)
            self._add_transition(alert, changed, change, now)
        for finding in held.values():
            opened = self._open(finding, phase=phase, step=step, now=now)
            changed_alerts.append(opened)
            if opened.state == "firing":
                self.transitions.append(AlertTransition(change="opened", alert=opened, at=now))
        return changed_alerts

    def end_kept(self, *, step: int, why: str, now: float) -> list[Alert]:
        """Resolve the alerts that were only kept at a run's last ``step``, and return them; no further step is due.

        Where detection failed at this step, it is not known what held.
        """
        if MONITOR_DEGRADED in self._open_alerts:
            return []
        kept = [alert for alert in self._open_alerts.values() if self._still_fires(alert, step)]
        ended: list[Alert] = []
        for alert in kept:
            entry = HistoryEntry(at=now, change=Change.RESOLVED, step=step, why=why)
            ended.append(self._advance(replace(alert, resolved_step=step), Change.RESOLVED, entry))
            self._add_transition(alert, ended[-1], Change.RESOLVED, now)
        return ended

    def mark_data(self, *, is_lost: bool, why: str, now: float) -> list[Alert]:
        """Note that the run became silent, or sends steps again; return the detectors' alerts that this changes."""
        change = Change.DATA_LOST if is_lost else Change.DATA_RETURNED
        entry = HistoryEntry(at=now, change=change, why=why)
        open_alerts = [alert for alert in self._open_alerts.values() if not _is_found_in_silence(alert)]
        return [
            self._advance(alert, change, entry) for alert in open_alerts if advance(alert, change).stage != alert.stage
        ]

    def save(self, repositories: Repositories, *, now: float) -> None:
        """Write the changes in the order in which they began, and silence the alerts that a silence covers.

        Changes that others wrote since the alerts were read are kept: silences, and an acknowledgement unless the alert
        has become more severe.
        """
        if not self._unsaved:
            return
        stored = {alert.id: alert for alert in repositories.alerts.open(self._run_id)}
        silences = repositories.silences.of_run(self._run_id, now=now)
        for alert in self._unsaved.values():
            self._saved[alert.id] = saved = save_alert(
                repositories, alert, self._changes.get(alert.id, []),
                opened=self._opened, known=stored.get(alert.id), silences=silences, now=now,
            )  # fmt: skip
            if alert.kind in self._open_alerts and self._open_alerts[alert.kind].id == alert.id:
                self._open_alerts[alert.kind] = saved
        self.transitions = [replace(each, alert=self.as_saved(each.alert)) for each in self.transitions]
        for unsaved in (self._unsaved, self._opened, self._changes):
            unsaved.clear()

    def _change(self, alert: Alert, found: Finding | None, step: int) -> Change | None:
        if found is None:
            return Change.RESOLVED
        if found.severity.rank > Severity(alert.severity).rank:
            return Change.RAISED
        is_held = alert.stage == Stage.PENDING and step - alert.opened_step >= self._pending_steps
        return Change.HELD if is_held else None

    def _still_fires(self, alert: Alert, step: int) -> bool:
        """Whether an alert that is not found at a step of its attempt is kept there."""
        is_kept = alert.stage != Stage.PENDING and not _is_immediate(alert.kind, alert.severity)
        return is_kept and 0 < step - alert.last_step <= self._keep_firing_steps

    def _advance(self, alert: Alert, change: Change, entry: HistoryEntry) -> Alert:
        changed = advance(alert, change)
        self._changes.setdefault(alert.id, []).append(UnsavedChange(change, entry))
        self._note_changed(changed)
        return changed

    def _note_changed(self, alert: Alert) -> None:
        self._unsaved[alert.id] = self._open_alerts[alert.kind] = alert
        if alert.state == "resolved":
            del self._open_alerts[alert.kind]

    def _add_transition(self, before: Alert, changed: Alert, change: Change, now: float) -> None:
        """Note the transition to notify; for an alert that was pending, only that it fires."""
        if before.stage == Stage.PENDING:
            if changed.state == "firing":
                self.transitions.append(AlertTransition(change="opened", alert=changed, at=now))
        elif change is Change.RAISED:
            self.transitions.append(AlertTransition(change="raised", alert=changed, at=now))
        else:
            self.transitions.append(AlertTransition(change="resolved", alert=changed, at=now))

    def _open(self, finding: Finding, *, phase: str, step: int, now: float) -> Alert:
        is_pending = self._pending_steps > 0 and not _is_immediate(finding.kind, finding.severity)
        stage = Stage.PENDING if is_pending else Stage.FIRING
        opened = Alert(
            id=uuid.uuid4().hex[:16],
            run_id=self._run_id,
            kind=finding.kind,
            severity=str(finding.severity),
            phase=phase,
            opened_step=step,
            severity_step=step,
            warned_step=_warned_step(None, finding, step),
            last_step=step,
            opened_at=now,
            summary=finding.summary,
            evidence=finding.evidence,
            stage=str(stage),
            state=str(stage),
        )
        self._opened[opened.id] = opened
        self._note_changed(opened)
        return opened


def _is_immediate(kind: str, severity: str) -> bool:
    """Whether an alert fires with its first finding and ends with its last one, whatever the settings ask for."""
    return severity == Severity.CRITICAL or kind.startswith(RULE_PREFIX) or is_clock_kind(kind)


def _is_found_in_silence(alert: Alert) -> bool:
    """Whether an alert is about missing data: from the clock, or from a rule about a signal that is not recorded."""
    return is_clock_kind(alert.kind) or (
        alert.kind.startswith(RULE_PREFIX) and alert.evidence.get("condition") == "absence"
    )


def _warned_step(known: int | None, found: Finding, step: int) -> int | None:
    """Return the first step at which an alert was a warning or critical, after a finding that gives its severity."""
    return step if known is None and found.severity is not Severity.INFO else known


def _update(alert: Alert, found: Finding | None, step: int) -> Alert:
    if found is None:
        return replace(alert, resolved_step=step)
    if found.severity.rank <= Severity(alert.severity).rank:
        return replace(alert, last_step=step)
    # The acknowledgement was for a lower severity, so the more severe alert must be acknowledged again.
    return replace(
        alert,
        severity=str(found.severity),
        severity_step=step,
        warned_step=_warned_step(alert.warned_step, found, step),
        last_step=step,
        summary=found.summary,
        evidence=found.evidence,
        acknowledged_at=None,
        acknowledged_by=None,
        note=None,
    )
