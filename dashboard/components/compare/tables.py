"""Draws the outcomes of the compared runs, and the differences of their configurations."""

import math
from collections.abc import Mapping, Sequence

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import AlertItem
from dashboard.collector_client.types.runs import PhaseItem, shown_name
from dashboard.components.small_elements import badge
from dashboard.components.values import plain
from dashboard.figures.compared_runs import Compared, missing_phase, seed_of, settings_of
from dashboard.figures.overlay import style_of
from dashboard.html_text import html_text
from dashboard.ids import compare as compare_ids

__all__ = ["config_differences", "differences", "legend", "outcomes"]

NONE = "–"
REWARD = "reward/mean"
EQUAL = "The configurations are equal."
SHARED = "Nothing differs in the settings that two or more runs have."
UNKNOWN = "No run has sent its configuration."


def legend(runs: Sequence[Compared], *, align: str, is_grouped: bool) -> Component:
    """Return the legend of the lines: runs, or settings with their seeds, in their colours, with links to the runs.

    A run that has no line, because it has not reached the origin of the alignment, says so.
    """
    if is_grouped:
        lines = [
            [html.Span([_swatch(number), html.Strong(name)], className="setting"), *_seeds(seeds, align)]
            for number, (name, seeds) in enumerate(settings_of(runs).items())
        ]
    else:
        lines = [[_swatch(item.place), *_named_run(item, shown_name(item.run), align)] for item in runs]
    return html.Ul([html.Li(line) for line in lines], className="legend", id=compare_ids.LEGEND)


def _seeds(runs: Sequence[Compared], align: str) -> list[Component]:
    return [html.Span(_named_run(item, seed_of(item.run), align), className="seed") for item in runs]


def _swatch(place: int) -> Component:
    colour, dash = style_of(place)
    return html.Span(className="swatch", style={"borderTop": f"3px {_css(dash)} {colour}"})


def _named_run(item: Compared, name: str, align: str) -> list[Component]:
    missing = missing_phase(item, align)
    return [
        dcc.Link(name, href=f"/runs/{item.run['id']}"),
        badge("phase", item.run["phase"]),
        *([html.Span(f"not drawn: {missing}", className="calm")] if missing else []),
    ]


def outcomes(runs: Sequence[Compared], alerts: Mapping[str, Sequence[AlertItem]]) -> Component:
    """Return a table of the outcome of each run: phase, steps, reward, and the first steps of alerts and phases."""
    heads = (
        "run",
        "phase",
        "status",
        "step",
        "best reward",
        "newest reward",
        "first warning",
        "first critical",
        "acceleration",
        "collapse",
    )
    rows = []
    for item in runs:
        held = alerts.get(item.run["id"], ())
        # An older collector does not state the step.
        warned = [step for alert in held if (step := alert.get("warned_step")) is not None]
        series = item.series.get(REWARD)
        rewards = [value for value in (series["values"] if series else []) if math.isfinite(value)]
        cells = [
            shown_name(item.run),
            item.run["phase"],
            item.run["status"],
            plain(item.run.get("last_step")),
            plain(max(rewards)) if rewards else NONE,
            plain(rewards[-1]) if rewards else NONE,
            _step(min(warned, default=None)),
            _step(min((alert["severity_step"] for alert in held if alert["severity"] == "critical"), default=None)),
            *(_step(_first_step(item.phases, phase)) for phase in ("acceleration", "collapsed")),
        ]
        rows.append(html.Tr([html.Th(cells[0], scope="row"), *map(html.Td, cells[1:])]))
    table = _table("Outcomes", heads, rows)
    table.id = compare_ids.OUTCOMES
    return table


def config_differences(runs: Sequence[Compared]) -> Component:
    """Return a table of the settings that differ between the runs, one column per run.

    A setting that one run alone has is folded: beside a run of another trainer, these are nearly all settings.
    """
    found = differences([item.run.get("config") or {} for item in runs])
    if not found:
        return html.Section(
            [
                html.H2("Configuration"),
                html.P(EQUAL if any(item.run.get("config") for item in runs) else UNKNOWN, className="calm"),
            ],
            className="card table-card",
        )
    heads = ("setting", *(shown_name(item.run) for item in runs))
    rows: dict[bool, list[Component]] = {True: [], False: []}
    for name, values in found.items():
        is_shared = len(values) - values.count(NONE) > 1
        rows[is_shared].append(html.Tr([html.Th(name, scope="row"), *map(html.Td, values)]))
    shared, alone = rows[True], rows[False]
    return html.Section(
        [
            html.H2("Configuration: what differs"),
            _rows_below(heads, shared) if shared else html.P(SHARED, className="calm"),
            *([html.Details([html.Summary(_summary(len(alone))), _rows_below(heads, alone)])] if alone else []),
        ],
        className="card table-card",
    )


def _summary(count: int) -> str:
    return f"{count} setting{'' if count == 1 else 's'} of one run alone"


def differences(configs: Sequence[Mapping[str, object]]) -> dict[str, list[str]]:
    """Return the settings whose values differ, each with its value in every configuration; nested names have dots."""
    flat = [dict(_flatten(config)) for config in configs]
    names = sorted(set().union(*flat)) if flat else []
    return {name: texts for name in names if (texts := _differing([held.get(name, NONE) for held in flat]))}


def _differing(values: Sequence[object]) -> list[str]:
    """Return the texts of values that differ, exact ones where the short ones would be equal; empty if none differs."""
    kinds = set(map(_identity, values))
    if len(kinds) < 2:  # noqa: PLR2004 - one value does not differ
        return []
    short = [plain(value) for value in values]
    if len(set(short)) == len(kinds):
        return short
    return [NONE if value is NONE else repr(value) for value in values]


def _identity(value: object) -> str:
    """Return a text that equal values share: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, list):
        return f"[{','.join(map(_identity, value))}]"
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def _flatten(config: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    return [
        pair
        for name, value in config.items()
        for pair in (
            _flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [(f"{prefix}{name}", value)]
        )
    ]


def _first_step(phases: Sequence[PhaseItem], phase: str) -> int | None:
    return next((span["from_step"] for span in phases if span["phase"] == phase), None)


def _step(step: int | None) -> str:
    return NONE if step is None else f"step {step:,}"


def _table(title: str, heads: Sequence[str], rows: Sequence[Component]) -> Component:
    return html.Section([html.H2(title), _rows_below(heads, rows)], className="card table-card")


def _rows_below(heads: Sequence[str], rows: Sequence[Component]) -> Component:
    head = html.Thead(html.Tr([html.Th(html.Span(name), scope="col") for name in heads]))
    table = html_text(html.Table([head, html.Tbody(rows)]))  # of twenty runs, more components than Dash updates in time
    return html.Div(className="scroll", tabIndex="0", **{"data-html": table})


def _css(dash: str) -> str:
    return {"solid": "solid", "dash": "dashed", "dot": "dotted"}[dash]
