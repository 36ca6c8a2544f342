"""The report of a check as one self-contained HTML page: no script, nothing loaded from elsewhere, all text escaped."""

import json
from collections.abc import Sequence

from monitor_server.html_report.elements import chip, document, mark_code, text
from monitor_server.html_report.plot import PhaseInterval, ReportCurve, StepAxis, phase_legend, plot, timeline
from monitor_server.log_check.advice import gaps, saving
from monitor_server.log_check.envelopes import Envelope
from monitor_server.log_check.examination import Examination, FindingPeriod
from monitor_server.log_check.reports.document import spell_non_finite
from monitor_server.log_check.reports.wording import DRIFT_INPUTS, PLOTTED, heading, savings, suspicion, verdict

__all__ = ["page"]


def page(examinations: Sequence[Examination], *, gpus: int | None = None, step_seconds: float | None = None) -> str:
    """Return the page with the reports of all logs."""
    title = examinations[0].log.name if len(examinations) == 1 else f"{len(examinations)} runs"
    index = _index(examinations) if len(examinations) > 1 else ""
    reports = "".join(_report(number, found, gpus, step_seconds) for number, found in enumerate(examinations))
    made = '<p class="muted">Made by rlvitals check. Phases are those of arXiv 2512.04220.</p>'
    return document(f"{title} - rlvitals check", f"{index}<main>{reports}</main>{made}")


def _index(examinations: Sequence[Examination]) -> str:
    rows = "".join(
        f'<tr><td><a href="#run-{number}">{text(found.log.name)}</a></td><td>{chip(found.outcome)}</td>'
        + "".join(
            f'<td class="number">{"-" if value is None else value}</td>'
            for value in (found.rows, found.warn_step, found.page_step, found.collapse_step)
        )
        + "</tr>"
        for number, found in enumerate(examinations)
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("steps", "warned", "paged", "collapsed"))
    return (
        f'<article class="scroll"><table><thead><tr><th>run</th><th>outcome</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></article>"
    )


def _report(number: int, found: Examination, gpus: int | None, step_seconds: float | None) -> str:
    saved = savings(found, saving(found, gpus=gpus, step_seconds=step_seconds))
    return "".join(
        [
            f'<article id="run-{number}"><p>{chip(found.outcome)}</p><h1>{text(found.log.name)}</h1>',
            f'<p class="muted">{text(heading(found))}</p><p class="verdict">{text(verdict(found))}</p>',
            f'<p class="verdict">{text(saved)}</p>' if saved else "",
            _timeline(found),
            f'<p class="muted">Observed: {text(DRIFT_INPUTS[found.drift_input])}.</p>',
            _plots(found),
            _findings(found),
            _gaps(found),
            _names(found),
            "</article>",
        ]
    )


def _timeline(found: Examination) -> str:
    rows = dict.fromkeys((span.phase for span in found.phases), 0)
    for span in found.phases:
        rows[span.phase] += span.rows
    legend = phase_legend(rows, rows)
    return f'<h2>Phases</h2>{timeline(_axis(found), _phases(found))}<p class="legend">{legend}</p>'


def _axis(found: Examination) -> StepAxis:
    return StepAxis(*found.step_range)


def _phases(found: Examination) -> list[PhaseInterval]:
    return [PhaseInterval(span.phase, span.from_step, span.to_step) for span in found.phases]


def _plots(found: Examination) -> str:
    alarms = [step for step in (found.warn_step, found.page_step) if step is not None]
    drawn = "".join(
        plot(_axis(found), _curve(name, found.envelopes[name]), _phases(found), alarms)
        for name in PLOTTED
        if name in found.envelopes
    )
    return f'<h2>Signals</h2><div class="plots">{drawn}</div>' if drawn else ""


def _curve(name: str, envelope: Envelope) -> ReportCurve:
    return ReportCurve(
        name=name, steps=envelope.steps, lows=envelope.lows, highs=envelope.highs, non_finite=envelope.non_finite
    )


def _findings(found: Examination) -> str:
    episodes = found.episodes
    if not episodes:
        return ""
    rows = "".join(
        f'<tr><td class="number">{episode.finding.step}</td><td class="number">{episode.last_step}</td>'
        f"<td>{chip(episode.finding.severity)}</td><td>{text(suspicion(found, episode))}</td>"
        f"<td><b>{text(episode.finding.kind)}</b>: "
        f"{text(episode.finding.summary)}<details><summary>evidence</summary><pre>{_evidence(episode)}</pre></details>"
        "</td></tr>"
        for episode in episodes
    )
    return (
        '<h2>What was found</h2><div class="scroll"><table><thead><tr><th class="number">from</th>'
        f'<th class="number">to</th><th>severity</th><th>suspect</th><th>finding</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _evidence(episode: FindingPeriod) -> str:
    finding = episode.finding
    content = {"score": finding.score, "threshold": finding.threshold, **finding.evidence}
    return text(json.dumps(spell_non_finite(content), indent=1, default=str))


def _gaps(found: Examination) -> str:
    listed = "".join(
        f"<dt>{text(', '.join(gap.signals))}</dt><dd>{mark_code(gap.cost)}. {mark_code(gap.remedy)}.</dd>"
        for gap in gaps(found)
    )
    return f"<h2>Not logged, so not observed</h2><dl>{listed}</dl>" if listed else ""


def _names(found: Examination) -> str:
    rows = "".join(
        f"<tr><td><code>{text(signal)}</code></td><td><code>{text(keys)}</code></td></tr>"
        for signal, keys in sorted(found.mapping.keys_of_signals().items())
    )
    unknown = ", ".join(found.mapping.unknown())
    problems = "".join(f"<li>{text(problem)}</li>" for problem in found.report.problems)
    notes = "".join(f"<li>{text(note)}</li>" for note in found.notes)
    return (
        f'<h2>Names</h2><details><summary>which key of the log is which signal</summary><div class="scroll"><table>'
        f"<thead><tr><th>signal</th><th>key of the log</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
        + (f"<details><summary>other numbers</summary><p><code>{text(unknown)}</code></p></details>" if unknown else "")
        + (f"<h2>Passed over ({found.report.problem_count})</h2><ul>{problems}</ul>" if problems else "")
        + (f"<h2>Steps</h2><ul>{notes}</ul>" if notes else "")
    )
