"""An incident report as one self-contained HTML page, which also contains all its data as JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from monitor_server.api.incident_report.attribution_sections import explanation_sections
from monitor_server.api.incident_report.content import MAX_LISTED, Incident
from monitor_server.api.schemas import AlertItem, PhaseItem, RunDetail
from monitor_server.detection.suspects import Suspect
from monitor_server.durations import spell_time
from monitor_server.html_report.elements import chip, document, text
from monitor_server.html_report.plot import PhaseInterval, ReportCurve, StepAxis, phase_legend, plot, timeline
from monitor_server.log_check.envelopes import Envelope

__all__ = ["page"]

LEAST: Final = 0.001  # a smaller probability would be shown as 0.0 %
SMALL: Final = 0.1
MOST: Final = 0.995  # a larger one would be shown as 100 %


def page(incident: Incident) -> str:
    """Return the page."""
    alert, run = incident.alert, incident.run
    return document(
        f"{alert.kind} of {run.title or run.name} - rlvitals",
        f"<main><article>{_head(incident)}{_forecast(incident)}{_course(incident)}</article>"
        f"<article>{explanation_sections(incident.attribution, opened_step=alert.opened_step)}</article>"
        f"<article>{_history(incident)}{_evidence(alert)}{_others(incident)}{_actions(incident)}{_config(incident)}</article></main>"
        f'<p class="muted">Made by rlvitals at {spell_time(incident.written_at)}. Phases are those of arXiv '
        "2512.04220. The element #data of this page holds all its data as JSON.</p>",
        data=incident.model_dump_json(),
    )


def _head(incident: Incident) -> str:
    alert, run = incident.alert, incident.run
    reached = "no step" if run.last_step is None else f"step {run.last_step}"
    name = f"{run.title} ({run.name})" if run.title else run.name
    facts = f"run {name} of project {run.project}: {run.status} in phase {run.phase}, {reached}, attempt {run.attempt}"
    return (
        f"<p>{chip(alert.severity)} {chip(alert.state)}</p><h1>{text(_words(alert.kind))}</h1>"
        f'<p class="muted">{text(facts)}</p><p class="verdict">{text(alert.summary)}</p>'
        f"<p>{text(_suspicion(alert))}</p><p>{text(_life(alert))}</p>"
    )


def _suspicion(alert: AlertItem) -> str:
    """Return which part of the training is suspected, and what makes the instrument the first to check."""
    suspect = "unknown: this kind of alert alone does not tell" if alert.suspect is Suspect.UNKNOWN else alert.suspect
    kinds = ", ".join(kind.replace("_", " ") for kind in alert.instrument_alerts)
    return f"Suspect: {suspect}." + (f" Check the instrument first, because of {kinds} on this run." if kinds else "")


def _life(alert: AlertItem) -> str:
    """Return the times at which the alert opened, became more severe, was acknowledged and resolved."""
    parts = [f"Opened at step {alert.opened_step} ({spell_time(alert.opened_at)}) in phase {alert.phase}"]
    if alert.severity_step > alert.opened_step:
        parts.append(f"{alert.severity} since step {alert.severity_step}")
    if alert.acknowledged_at is not None:
        note = f" ({alert.note})" if alert.note else ""
        parts.append(f"acknowledged by {alert.acknowledged_by} {spell_time(alert.acknowledged_at)}{note}")
    return ", ".join([*parts, _end(alert)]) + "."


def _end(alert: AlertItem) -> str:
    if alert.is_taken_back:
        return f"resolved as the run went back to step {alert.resolved_step}"
    return f"resolved at step {alert.resolved_step}" if alert.resolved_step is not None else "not resolved"


def _forecast(incident: Incident) -> str:
    """Return the probability of a collapse at the time of the report, beside the base rate."""
    found = incident.forecast
    if found is None:
        return ""
    rows = "".join(
        f'<tr><td class="number">{each.within}</td><td class="number">{text(_percent(each.probability))}</td>'
        f'<td class="number">{text(_percent(each.base_rate))}</td></tr>'
        for each in found.horizons
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("within rows", "probability", "base rate"))
    raised = ", ".join(f"{driver.description} (odds × {driver.odds_ratio:.3g})" for driver in found.drivers)
    drivers = f"Raised by: {raised}." if raised else "No evidence raises it: these are the base rates."
    return (
        _table(f"Forecast of a collapse after step {found.step}", head, rows)
        + f'<p>{text(drivers)}</p><p class="muted">{text(f"Fitted on {found.fitted_on}.")}</p>'
    )


def _percent(probability: float) -> str:
    """Return a probability in percent, of which no forecast is 0 or 1, as in dashboard/components/forecast.py."""
    if not LEAST <= probability < MOST:
        return "< 0.1 %" if probability < LEAST else "> 99 %"
    return f"{100 * probability:.{1 if probability < SMALL else 0}f} %"


def _course(incident: Incident) -> str:
    """Return the phases of the run and its signals, with lines where the alert opened and became more severe."""
    steps = [step for item in incident.signals for step in (item.steps[0], item.steps[-1])]
    steps += [incident.alert.opened_step, incident.alert.last_step]
    axis = StepAxis(min(steps), max(steps))
    phases = [PhaseInterval(item.phase, item.from_step, _last_step(item, incident.run)) for item in incident.phases]
    alarms = (incident.alert.opened_step, incident.alert.severity_step)
    curves = (_curve(item.signal, item.steps, item.values) for item in incident.signals)
    drawn = "".join(plot(axis, curve, phases, alarms) for curve in curves)
    return (
        f'<h2>Phases, steps {axis.first_step} to {axis.last_step}</h2>{timeline(axis, phases)}<p class="legend">'
        f"{phase_legend(phase.phase for phase in phases)}</p>"
        + (f"<h2>Signals</h2>{_note_on_curves(incident.alert)}" if drawn else "<p>No signal of the run is stored.</p>")
        + (f'<div class="plots">{drawn}</div>' if drawn else "")
    )


def _note_on_curves(alert: AlertItem) -> str:
    if not alert.is_taken_back:
        return ""
    again = f"The run went back to step {alert.resolved_step}: from there on, the curves are those of the steps"
    return f'<p class="muted">{again} that it made again, and not those on which the alert was found.</p>'


def _last_step(phase: PhaseItem, run: RunDetail) -> int:
    """Return the last step of a phase. After a rewind, the run may not have reached all drawn steps again."""
    return max(phase.from_step, run.last_step or 0) if phase.to_step is None else phase.to_step


def _curve(name: str, steps: Iterable[int], values: Iterable[float]) -> ReportCurve:
    envelope = Envelope()
    for step, value in zip(steps, values, strict=True):
        envelope.add(step, value)
    return ReportCurve(
        name=name, steps=envelope.steps, lows=envelope.lows, highs=envelope.highs, non_finite=envelope.non_finite
    )


def _evidence(alert: AlertItem) -> str:
    rows = "".join(
        f"<tr><td>{text(_words(name))}</td><td>{text(_evidence_text(value))}</td></tr>"
        for name, value in alert.evidence.items()
    )
    return f'<h2>Evidence</h2><div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""


def _history(incident: Incident) -> str:
    """Return the changes of the alerts of this run and kind, and what people wrote, the oldest first."""
    rows = "".join(
        f'<tr><td class="number">{"" if each.step is None else each.step}</td><td>{spell_time(each.at)}</td>'
        f"<td>{text(_words(each.change))}{text(f' by {each.by}' if each.by else '')}</td>"
        f'<td class="said">{text(each.why)}</td></tr>'
        for each in reversed(incident.history)
    )
    head = '<th class="number">step</th><th>time</th><th>change</th><th>reason or comment</th>'
    return _table(f"History{_cut(incident.history)}", head, rows)


def _others(incident: Incident) -> str:
    rows = "".join(
        f'<tr><td class="number">{each.opened_step}</td><td>{chip(each.severity)}{_since(each)}</td>'
        f"<td><b>{text(each.kind)}</b>, {text(_end(each))}: {text(each.summary)}</td></tr>"
        for each in sorted(incident.alerts, key=lambda alert: alert.opened_step)
        if each.id != incident.alert.id
    )
    head = '<th class="number">opened at step</th><th>severity</th><th>alert</th>'
    return _table(f"Other alerts of the run{_cut(incident.alerts)}", head, rows)


def _since(alert: AlertItem) -> str:
    """Return since when an alert that opened with a lower severity has the one that it has now, and its summary."""
    return f" since step {alert.severity_step}" if alert.severity_step > alert.opened_step else ""


def _actions(incident: Incident) -> str:
    rows = "".join(
        f'<tr><td class="number">{each.step}</td><td>{text(each.action)}</td><td>{text(each.outcome)}</td>'
        f"<td>{text(each.detail or each.reason)}</td></tr>"
        for each in incident.actions
    )
    head = '<th class="number">step</th><th>action</th><th>outcome</th><th>reason</th>'
    return _table(f"Actions of the trainer{_cut(incident.actions)}", head, rows)


def _config(incident: Incident) -> str:
    if not incident.run.config:
        return ""
    content = text(json.dumps(incident.run.config, indent=1, ensure_ascii=False))
    return f"<h2>Configuration</h2><details><summary>as the trainer sent it</summary><pre>{content}</pre></details>"


def _cut(items: Sequence[object]) -> str:
    """Return that a list holds only the newest items, if it has as many as are read."""
    return f" (among the newest {MAX_LISTED})" if len(items) == MAX_LISTED else ""


def _table(title: str, head: str, rows: str) -> str:
    if not rows:
        return ""
    return (
        f'<h2>{title}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _evidence_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if value in ([], {}, None):
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _words(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]
