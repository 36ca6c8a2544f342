"""Draws the top of the run page: name, state, newest vital signs, and the phases so far."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import ForecastItem, PhaseItem, RunDetail, RunItem, SeriesItem, shown_name
from dashboard.components.forecast import forecast_parts
from dashboard.components.small_elements import badge, number, since
from dashboard.components.values import plain
from dashboard.figures.curves.newest_attempt import not_replaced
from dashboard.ids import run as run_ids

__all__ = ["SEEN_SHARE", "gone_header", "run_header"]

# Held by the steps that were processed without all ranks.
SEEN_SHARE: Final = "step/seen_frac"

VITALS: Final = (
    ("likelihood/correct", "likelihood, correct"),
    ("likelihood/incorrect", "likelihood, incorrect"),
    ("reward/mean", "reward"),
    ("grad/norm", "gradient norm"),
    ("entropy/mean", "entropy"),
    ("ratio/max", "largest ratio"),
)
NEWEST_PHASES: Final = 8
THINNED: Final = (
    "Retention has removed some of the steps of this run. The charts show the others, without the running sum of the "
    "paired entropy change, which needs all of them."
)
LEVELS: Final = {
    "L0": "imported logs",
    "L1": "the trainer's own metrics",
    "L2": "rollout tokens",
    "L3": "loss tokens",
    "L4": "paired re-scoring",
}


def run_header(
    run: RunDetail,
    phases: Sequence[PhaseItem],
    series: Mapping[str, SeriesItem],
    forecast: ForecastItem | None = None,
) -> list[Component]:
    """Return the run's name, facts, vital signs, forecast and timeline of phases."""
    series = {name: not_replaced(held, run.get("last_step")) for name, held in series.items()}
    # The phase of a run that cannot be processed is unknown, while its newest phase is another one.
    goes_on = run["status"] == "running" and bool(phases) and phases[-1]["phase"] == run["phase"]
    return [
        html.Nav(
            [
                dcc.Link("All runs", href="/"),
                dcc.Link(run["project"], href=f"/?{urlencode({'project': run['project']})}"),
                dcc.Link("Responses", href=f"/runs/{run['id']}/responses"),
                dcc.Link("Compare", href=f"/compare?run={run['id']}"),
            ],
            className="crumbs",
            **{"aria-label": "breadcrumbs"},
        ),
        html.Div(
            [
                html.H1(shown_name(run)),
                badge("phase", run["phase"]),
                badge("status", run["status"]),
                *_incomplete(run, series),
                *(html.Span(tag, className="tag") for tag in run.get("tags") or []),
                *([html.Span("archived", className="tag")] if run.get("archived") else []),
            ],
            className="title",
        ),
        html.Dl([html.Div([html.Dt(name), html.Dd(value)]) for name, value in _facts(run)], className="facts"),
        *([html.P(THINNED, className="hint")] if run.get("thinned") else []),
        html.Div([_vital(signal, label, series) for signal, label in VITALS], className="vitals"),
        html.Div(forecast_parts(forecast, phase=run["phase"]), id=run_ids.FORECAST, className="forecast"),
        *_timeline(phases, newest_step="now" if goes_on else run.get("last_step")),
    ]


def gone_header(title: str) -> list[Component]:
    """Return the header of a run that was deleted while its page is open."""
    return [
        html.Nav([dcc.Link("All runs", href="/")], className="crumbs", **{"aria-label": "breadcrumbs"}),
        html.Div([html.H1(title)], className="title"),
        html.P(
            "The collector has no such run any more: it was deleted, or a backup from before it was restored. "
            "The charts show the data that this page had read.",
            role="alert",
            **{"data-gone": "true"},
        ),
    ]


def _timeline(phases: Sequence[PhaseItem], *, newest_step: str | int | None) -> list[Component]:
    """Return the newest phases, and the earlier phases folded; the band above the chart shows all of them."""
    earlier, newest = phases[:-NEWEST_PHASES], phases[-NEWEST_PHASES:]
    shown = html.Ol([_span(span, newest_step) for span in newest], className="timeline", **{"aria-label": "phases"})
    if not earlier:
        return [shown]
    spans = html.Ol(
        [_span(span, newest_step) for span in earlier], className="timeline", **{"aria-label": "earlier phases"}
    )
    return [shown, html.Details([html.Summary(f"{len(earlier)} earlier phases"), spans])]


def _incomplete(run: RunItem, series: Mapping[str, SeriesItem]) -> list[Component]:
    """Return a mark with the share of the ranks in the newest step that was processed without all of them, if any."""
    held = series.get(SEEN_SHARE)
    if held is None or not held["steps"]:
        return []
    step, share = held["steps"][-1], held["values"][-1]
    is_newest = step == run.get("last_step")
    text = f"{100 * share:.0f} % of {run['world_size']} ranks seen at step {step:,}"
    mark = badge("severity", "warning" if is_newest else "info", text=text)
    mark.title = "Values of this step are those of the ranks that were seen, and an alarm there needs more strength."
    return [mark]


def _facts(run: RunItem) -> list[tuple[str, object]]:
    level = run.get("capability") or "L0"
    facts: list[tuple[str, object]] = [
        ("step", number(run.get("last_step"), signal="step")),
        ("last seen", since(run.get("last_seen"))),
        ("attempt", str(run.get("attempt", 1))),
        ("observed", html.Span(f"{level}: {LEVELS.get(level, 'unknown')}")),
    ]
    if run.get("world_size", 1) > 1:
        facts.append(("ranks", str(run["world_size"])))
    if run.get("title"):
        facts.append(("name in the trainer", run["name"]))
    if run.get("source"):
        facts.append(("source", run["source"]))
    return facts


def _vital(signal: str, label: str, series: Mapping[str, SeriesItem]) -> Component:
    held = series.get(signal)
    value = held["values"][-1] if held and held["values"] else None
    return html.Div([html.Span(label, className="label"), number(value, signal=signal)], className="vital")


def _span(span: PhaseItem, newest_step: str | int | None) -> Component:
    end = newest_step if span["to_step"] is None else span["to_step"]
    return html.Li(
        [
            html.Span(span["phase"], className="phase-name"),
            html.Span(f"{plain(span['from_step'])} to {plain(end)}", className="steps"),
        ],
        **{"data-phase": span["phase"]},
    )
