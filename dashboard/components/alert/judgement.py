"""Draws people's judgements of alarms after a run, and the spent part of the run's false-alarm budget."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import AlertItem, JudgementItem, WarrantyItem, kind_name
from dashboard.components.small_elements import number_input
from dashboard.ids import alert as alert_ids

__all__ = ["MOST_FORMS", "budget_lines", "judgement_card", "judgement_list", "spell_judgement", "title_of_list"]

MOST_FORMS: Final = 50  # in the list of a run: a form has eight components, and Dash needs minutes for some thousands


def judgement_card(alert_id: str, judgement: JudgementItem | None) -> Component:
    """Return the form of an alert's page."""
    head = html.H2("Was this alarm right?")
    return html.Section([head, *_form(alert_id, judgement)], className="card explains judgement")


def judgement_list(alerts: Sequence[AlertItem], judgements: Mapping[str, JudgementItem]) -> list[Component]:
    """Return forms for the alarms of a run that has ended; an empty list where there was none.

    If there are more than `MOST_FORMS` alarms, those that nobody has judged come first, and of these the newest.

    Args:
        alerts: The alerts of the run in any state; an alert that never fired gets no form.
        judgements: The newest judgement of each alert, by its id.
    """
    alarms = [alert for alert in alerts if alert["state"] != "pending" and alert["severity"] != "info"]
    if not alarms:
        return []
    alarms.sort(key=lambda alert: (alert["id"] in judgements, -alert["opened_step"]))
    listed, more = alarms[:MOST_FORMS], len(alarms) - MOST_FORMS
    title = html.Summary(title_of_list([alert["id"] for alert in listed], judgements), id=alert_ids.JUDGED_TITLE)
    entries = [
        html.Li(
            [
                html.Strong(f"{kind_name(alert['kind'])}, step {alert['opened_step']:,}"),
                *_form(alert["id"], judgements.get(alert["id"])),
            ]
        )
        for alert in sorted(listed, key=lambda alert: alert["opened_step"])
    ]
    others = (
        [html.P(f"{more:,} other alarms are not listed; those that are not judged come first.")] if more > 0 else []
    )
    part = {"data-part": f"judgement {alarms[0]['run_id']}"}  # stays open where the page is drawn anew
    return [html.Details([title, html.Ol(entries), *others], className="judgement", **part)]


def title_of_list(alarms: Sequence[str], judged: Collection[str]) -> str:
    """Return the title of the list of forms, which counts the listed alarms that nobody has judged."""
    left = sum(alarm not in judged for alarm in alarms)
    return f"Were the alarms right? ({left} below not judged)" if left else "The alarms below are judged"


def spell_judgement(judgement: JudgementItem | None) -> str:
    """Return the newest judgement in words."""
    if judgement is None:
        return "Not judged yet."
    failed = "" if judgement["failed_at"] is None else f", the run failed at step {judgement['failed_at']}"
    note = f": {judgement['note']}" if judgement["note"] else ""
    return f"{'Right' if judgement['is_right'] else 'Wrong'}{failed}, says {judgement['by']}{note}"


def budget_lines(warranty: WarrantyItem | None) -> list[Component]:
    """Return the warranty of a run and the spent part of its false-alarm budget; an empty list without a warranty.

    As long as too few healthy runs are known, nothing is promised, so there is no budget to compare the pages with.
    """
    if warranty is None:
        return []
    opened = warranty["pages_opened"]
    lines = [f"{opened} page{'' if opened == 1 else 's'} opened"]
    if warranty["is_in_force"]:
        lines[0] += f"; the budget allows {warranty['pages_allowed']:.2f} up to now"
        if warranty["steps_held_back"]:
            lines[0] += f"; at {warranty['steps_held_back']} steps a page was shown as a warning"
        if warranty["is_longer"]:
            lines.append(
                "This run is longer than every healthy run, so nothing is promised from there on. "
                "Pages that the budget does not allow are held back all the same."
            )
    paragraphs = [html.P(line, className="when") for line in lines]
    return [html.Div([html.H2("Budget of false pages"), html.P(warranty["promise"]), *paragraphs], className="budget")]


def _form(alert_id: str, judgement: JudgementItem | None) -> list[Component]:
    step, note = alert_ids.judgement("step", alert_id), alert_ids.judgement("note", alert_id)
    kept = {"persistence": True, "persistence_type": "memory"}  # the text stays where the page is drawn anew
    return [
        html.P(spell_judgement(judgement), id=alert_ids.judgement("state", alert_id), className="when", role="status"),
        html.Div(
            [
                number_input(step, inputMode="numeric", placeholder="failed at step", **kept),
                dcc.Input(id=note, type="text", maxLength=2000, placeholder="note", **kept),
                html.Button("Right", id=alert_ids.judgement("right", alert_id), className="button"),
                html.Button("Wrong", id=alert_ids.judgement("wrong", alert_id), className="quiet"),
                html.Div(id=alert_ids.judgement("problem", alert_id), className="field-problem", role="status"),
            ],
            className="judgement-form",
        ),
    ]
