"""The report of a check as one self-contained HTML page: no script, nothing loaded from elsewhere, all text escaped."""

import html
import json
import re
from collections.abc import Sequence

from monitor_server.detection.protocol import Phase
from monitor_server.log_check.advice import gaps, saving
from monitor_server.log_check.examination import Episode, Examination, PhaseSpan
from monitor_server.log_check.reports.document import spell_non_finite
from monitor_server.log_check.reports.wording import CAPABILITIES, PLOTTED, heading, savings, verdict
from monitor_server.log_check.traces import Trace

__all__ = ["page"]

# The dashboard's colours of phases and severities (dashboard/theme.py), which differ in lightness as well as hue.
PHASES = {
    Phase.WARMUP: "#8496b0",
    Phase.HEALTHY: "#17967f",
    Phase.STAGNATION: "#e9bf3c",
    Phase.DECAY: "#ee8432",
    Phase.ACCELERATION: "#cf2f45",
    Phase.COLLAPSED: "#7440ad",
    Phase.UNKNOWN: "#b4bcc8",
}
WIDTH, HEIGHT = 560, 130
STYLE = """
:root { color-scheme: light dark; --canvas: #f5f6f8; --surface: #fff; --ink: #182130; --muted: #566174; --line: #e1e5eb;
  --accent: #2457c5; --critical: #b3202f; --warning: #9a4d00; --quiet: #0e6b5a; }
@media (prefers-color-scheme: dark) { :root { --canvas: #11161f; --surface: #19202c; --ink: #e6eaf1; --muted: #9aa6b8;
  --line: #2b3545; --accent: #7ea6ff; --critical: #ff8391; --warning: #ffb066; --quiet: #5fd3bd; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.25rem; background: var(--canvas); color: var(--ink);
  font: 16px/1.5 -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
p { margin: .35rem 0; } .muted { color: var(--muted); } .verdict { font-size: 1.1rem; }
article { background: var(--surface); border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.25rem;
  margin: 0 0 1.25rem; }
.chip { display: inline-block; border: 1.5px solid currentColor; border-radius: 99px; padding: .05rem .7rem;
  font-weight: 600; font-size: .85rem; } .critical { color: var(--critical); } .warning { color: var(--warning); }
.quiet { color: var(--quiet); } .info, .not { color: var(--muted); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: .9rem; }
figure { margin: 0; min-width: 0; } figcaption { display: flex; justify-content: space-between; gap: 1rem;
  font-size: .85rem; } figcaption span:first-child { font-weight: 600; }
svg { display: block; width: 100%; height: auto; } .trace { fill: none; stroke: var(--accent); stroke-width: 1.6;
  vector-effect: non-scaling-stroke; } .band { fill: var(--accent); opacity: .25; }
.alarm { stroke: var(--ink); stroke-dasharray: 4 3; vector-effect: non-scaling-stroke; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; font-size: .85rem; margin: .4rem 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .35rem;
  vertical-align: -1px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-top: 1px solid var(--line); }
td:last-child { overflow-wrap: anywhere; }
@media (max-width: 40rem) { th, td { padding-right: .4rem; } table { font-size: .85rem; } }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .78rem; margin: .3rem 0; }
summary { cursor: pointer; color: var(--muted); font-size: .85rem; } dt { font-weight: 600; margin-top: .5rem; }
dd { margin: 0; overflow-wrap: anywhere; } code { overflow-wrap: anywhere; }
"""


def page(examinations: Sequence[Examination], *, gpus: int | None = None, step_seconds: float | None = None) -> str:
    """Return the page with the reports of all logs."""
    title = examinations[0].log.name if len(examinations) == 1 else f"{len(examinations)} runs"
    index = _index(examinations) if len(examinations) > 1 else ""
    reports = "".join(_report(number, found, gpus, step_seconds) for number, found in enumerate(examinations))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(title)} - rlvitals check</title><style>{STYLE}</style></head><body>"
        f"{index}<main>{reports}</main>"
        '<p class="muted">Made by rlvitals check. Phases are those of arXiv 2512.04220.</p></body></html>\n'
    )


def _index(examinations: Sequence[Examination]) -> str:
    rows = "".join(
        f'<tr><td><a href="#run-{number}">{_text(found.log.name)}</a></td><td>{_chip(found.outcome)}</td>'
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
            f'<article id="run-{number}"><p>{_chip(found.outcome)}</p><h1>{_text(found.log.name)}</h1>',
            f'<p class="muted">{_text(heading(found))}</p><p class="verdict">{_text(verdict(found))}</p>',
            f'<p class="verdict">{_text(saved)}</p>' if saved else "",
            _timeline(found),
            f'<p class="muted">Observed: {_text(CAPABILITIES[found.capability])}.</p>',
            _plots(found),
            _findings(found.episodes),
            _gaps(found),
            _names(found),
            "</article>",
        ]
    )


def _timeline(found: Examination) -> str:
    legend = ""
    for phase in dict.fromkeys(span.phase for span in found.phases):
        rows = sum(span.rows for span in found.phases if span.phase is phase)
        legend += f'<span><i style="background:{PHASES[phase]}"></i>{phase} ({rows})</span>'
    bars = "".join(
        f'<rect x="{begin:.2f}" y="0" width="{width:.2f}" height="26" fill="{PHASES[span.phase]}"><title>'
        f"{span.phase}, steps {span.from_step} to {span.to_step}</title></rect>"
        for span, begin, width in _spans(found)
    )
    return (
        f'<h2>Phases</h2><svg viewBox="0 0 {WIDTH} 26" preserveAspectRatio="none" style="height:26px" role="img" '
        f'aria-label="phases by step">{bars}</svg><p class="legend">{legend}</p>'
    )


def _spans(found: Examination) -> list[tuple[PhaseSpan, float, float]]:
    """Return each phase with its left edge and width, in units of the drawing, by steps of the newest attempt."""
    return [
        (span, begin, max(0.5, _x(found, span.to_step + 1) - begin))
        for span in found.phases
        for begin in [_x(found, span.from_step)]
    ]


def _x(found: Examination, step: float) -> float:
    share = (step - found.first_step) / max(1, found.last_step + 1 - found.first_step)
    return min(max(share, 0.0), 1.0) * WIDTH


def _plots(found: Examination) -> str:
    drawn = "".join(_plot(found, name, found.traces[name]) for name in PLOTTED if name in found.traces)
    return f'<h2>Signals</h2><div class="plots">{drawn}</div>' if drawn else ""


def _plot(found: Examination, name: str, trace: Trace) -> str:
    low, high = min(trace.lows, default=0.0), max(trace.highs, default=0.0)
    span = (high - low) or 1.0

    def y(value: float) -> float:
        return HEIGHT - 6 - (value - low) / span * (HEIGHT - 12)

    bands = "".join(
        f'<rect x="{begin:.2f}" y="0" width="{width:.2f}" height="{HEIGHT}" fill="{PHASES[each.phase]}" opacity=".13"/>'
        for each, begin, width in _spans(found)
    )
    places = [
        (_x(found, step + 0.5), y(least), y(most))
        for step, least, most in zip(trace.steps, trace.lows, trace.highs, strict=True)
    ]
    outline = [f"{x:.1f},{top:.1f}" for x, _, top in places] + [
        f"{x:.1f},{bottom:.1f}" for x, bottom, _ in reversed(places)
    ]
    line = " ".join(f"{x:.1f},{(top + bottom) / 2:.1f}" for x, bottom, top in places)
    alarms = "".join(
        f'<line class="alarm" x1="{_x(found, step + 0.5):.1f}" x2="{_x(found, step + 0.5):.1f}" y1="0" y2="{HEIGHT}"/>'
        for step in dict.fromkeys((found.warn_step, found.page_step))
        if step is not None
    )
    reach = f"{low:.3g} to {high:.3g}" if places else "never finite"
    if trace.non_finite is not None:
        reach += f", not finite at step {trace.non_finite}"
    return (
        f"<figure><figcaption><span>{_text(name)}</span><span class='muted'>{reach}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" style="height:{HEIGHT}px" role="img" '
        f'aria-label="{_text(name)}: {reach}">{bands}<polygon class="band" points="{" ".join(outline)}"/>'
        f'<polyline class="trace" points="{line}"/>{alarms}</svg></figure>'
    )


def _findings(episodes: Sequence[Episode]) -> str:
    if not episodes:
        return ""
    rows = "".join(
        f'<tr><td class="number">{episode.finding.step}</td><td class="number">{episode.last_step}</td>'
        f"<td>{_chip(episode.finding.severity)}</td><td><b>{_text(episode.finding.kind)}</b>: "
        f"{_text(episode.finding.summary)}<details><summary>evidence</summary><pre>{_evidence(episode)}</pre></details>"
        "</td></tr>"
        for episode in episodes
    )
    return (
        '<h2>What was found</h2><div class="scroll"><table><thead><tr><th class="number">from</th>'
        f'<th class="number">to</th><th>severity</th><th>finding</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _evidence(episode: Episode) -> str:
    finding = episode.finding
    content = {"score": finding.score, "threshold": finding.threshold, **finding.evidence}
    return _text(json.dumps(spell_non_finite(content), indent=1, default=str))


def _gaps(found: Examination) -> str:
    listed = "".join(
        f"<dt>{_text(', '.join(gap.signals))}</dt><dd>{_marked(gap.cost)}. {_marked(gap.remedy)}.</dd>"
        for gap in gaps(found)
    )
    return f"<h2>Not logged, so not observed</h2><dl>{listed}</dl>" if listed else ""


def _names(found: Examination) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(signal)}</code></td><td><code>{_text(keys)}</code></td></tr>"
        for signal, keys in sorted(found.mapping.mapped().items())
    )
    unknown = ", ".join(found.mapping.unknown())
    problems = "".join(f"<li>{_text(problem)}</li>" for problem in found.report.problems)
    return (
        f'<h2>Names</h2><details><summary>which key of the log is which signal</summary><div class="scroll"><table>'
        f"<thead><tr><th>signal</th><th>key of the log</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
        + (
            f"<details><summary>other numbers</summary><p><code>{_text(unknown)}</code></p></details>"
            if unknown
            else ""
        )
        + (f"<h2>Passed over ({found.report.problem_count})</h2><ul>{problems}</ul>" if problems else "")
    )


def _chip(word: str) -> str:
    return f'<span class="chip {_text(word.partition(" ")[0])}">{_text(word)}</span>'


def _marked(text: str) -> str:
    """Return a text with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


def _text(text: object) -> str:
    return html.escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in str(text)))
