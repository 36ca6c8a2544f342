"""Draws the alerts of a run as cards: the finding, the time since it opened, and the evidence on a click.

The folded parts are HTML, which assets/html_parts.js draws. Fifty resolved alerts would be 3,700 components, and Dash
needs minutes for a page with so many.
"""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.http_requests import MAX_ITEMS
from dashboard.collector_client.types.alerts import AlertItem, kind_name
from dashboard.collector_client.urgency import firing
from dashboard.components.alert.evidence import evidence_table
from dashboard.components.alert.history import moment_link
from dashboard.components.small_elements import badge, since
from dashboard.components.values import plain
from dashboard.html_text import html_text
from dashboard.ids import alert as alert_ids

__all__ = ["MOST_RESOLVED", "alert_head", "alert_list"]

MOST_RESOLVED: Final = 50  # resolved alerts in the list, which is drawn anew with each alert while the page is open


def alert_list(alerts: Sequence[AlertItem]) -> list[Component]:
    """Return the firing alerts, most severe first, and below them the resolved ones, folded."""
    held = firing(alerts)
    past = sorted((alert for alert in alerts if alert["state"] == "resolved"), key=lambda alert: -alert["opened_step"])
    parts: list[Component] = [html.H2("Alerts")]
    parts += [_card(alert, _evidence(alert)) for alert in held] or [html.P("Nothing fires.", className="calm")]
    if past:
        or_more = " or more" if len(alerts) >= MAX_ITEMS else ""  # older ones were not read
        earlier = [_earlier(past[MOST_RESOLVED:], or_more)] if len(past) > MOST_RESOLVED else []
        cards = [_card(alert, evidence_table(alert.get("evidence") or {})) for alert in past[:MOST_RESOLVED]]
        listed = html.Div(**{"data-html": html_text([*cards, *earlier])})
        title = html.Summary(f"{len(past):,}{or_more} resolved")
        parts.append(
            html.Details([title, listed], className="past-alerts", **{"data-part": f"past {past[0]['run_id']}"})
        )
    return parts


def _earlier(alerts: Sequence[AlertItem], or_more: str) -> Component:
    """Return how many resolved alerts are not listed, and where they are."""
    address = f"/api/v1/alerts?run_id={alerts[0]['run_id']}&state=resolved"
    return html.P(
        [f"{len(alerts):,}{or_more} earlier ones are not listed: ", html.A(address, href=address)], className="calm"
    )


def alert_head(alert: AlertItem, *, run: str, to_do: str = "") -> Component:
    """Return the head of an alert's page: the run, the finding, since when, and what to do.

    Args:
        alert: The alert.
        run: The run's shown name.
        to_do: What helps first. It is shown while the alert fires.
    """
    kind = kind_name(alert["kind"])
    crumbs = [dcc.Link("All runs", href="/"), dcc.Link(run, href=f"/runs/{alert['run_id']}")]
    return html.Section(
        className=f"card alert-head {alert['state']}",
        **{"data-severity": alert["severity"]},
        children=[
            html.Nav([*crumbs, html.Span(kind)], className="crumbs", **{"aria-label": "breadcrumbs"}),
            html.Div(
                [
                    html.H1(kind[:1].upper() + kind[1:]),
                    badge("severity", alert["severity"]),
                    html.Span((alert.get("stage") or alert["state"]).replace("_", " "), className="badge"),
                ],
                className="title",
            ),
            html.P(alert.get("summary", "")),
            *([html.P(["what to do: ", html.B(to_do)])] if to_do and alert["state"] == "firing" else []),
            *_suspicion(alert),
            html.P(_when(alert), className="when"),
            *_opening(alert),
            *_silence(alert),
            *_acknowledgement(alert),
            moment_link(alert),
            html.A(
                "Incident report",
                href=f"/api/v1/alerts/{alert['id']}/incident",
                download="",
                className="incident-link",
                title="One HTML file with the alert, its run, its explanation and all data; any browser opens it",
            ),
        ],
    )


def _opening(alert: AlertItem) -> list[Component]:
    """Return when the alert was opened, by the reader's clock too: a phone shows no text on hover."""
    at = alert.get("opened_at")
    if at is None:
        return []
    return [
        html.P(["opened ", since(at), html.Time(className="clock", **{"data-until": f"{at:.3f}"})], className="when")
    ]


def _silence(alert: AlertItem) -> list[Component]:
    """Return the time until which the alert is silenced."""
    if alert.get("stage") != "silenced":
        return []
    until = alert.get("silenced_until")
    end = "it is resolved" if until is None else html.Time(**{"data-until": f"{until:.3f}"})
    return [html.P(["silenced until ", end], className="when")]


def _acknowledgement(alert: AlertItem) -> list[Component]:
    """Return who has acknowledged an alert, or the button to do so while it fires."""
    known_at = alert.get("acknowledged_at")
    if known_at:
        note = f": {alert['note']}" if alert.get("note") else ""
        return [html.P([f"acknowledged by {alert['acknowledged_by']}, ", since(known_at), note], className="when")]
    if alert["state"] != "firing":
        return []
    is_lost = alert["kind"] == "trainer_lost"
    return [
        html.Button(
            "Give up this run" if is_lost else "Acknowledge",
            id=alert_ids.ACKNOWLEDGE,
            className="acknowledge",
            title="The run counts as stopped until its trainer sends again"
            if is_lost
            else "Record that a person has noticed this alert",
        ),
        html.Span(id=alert_ids.ACKNOWLEDGE_STATE, className="when", role="status"),
    ]


def _evidence(alert: AlertItem) -> Component:
    return html.Div(**{"data-html": html_text(evidence_table(alert.get("evidence") or {}))})


def _card(alert: AlertItem, evidence: Component) -> Component:
    kind = kind_name(alert["kind"])
    return html.Article(
        className=f"alert {alert['state']}",
        key=alert["id"],
        **{"data-severity": alert["severity"]},
        children=[
            html.Header([badge("severity", alert["severity"]), html.Strong(kind[:1].upper() + kind[1:])]),
            html.P(alert.get("summary", "")),
            *_suspicion(alert),
            html.P([_when(alert), *_age(alert)], className="when"),
            *_silence(alert),
            *([html.P(f"acknowledged by {by}", className="when")] if (by := alert.get("acknowledged_by")) else []),
            dcc.Link(
                "What explains it", href=f"/runs/{alert['run_id']}/alerts/{alert['id']}", className="explain-link"
            ),
            html.Details([html.Summary("Evidence"), evidence], **{"data-part": alert["id"]}),
        ],
    )


def _suspicion(alert: AlertItem) -> list[Component]:
    """Return which part of the training is suspected, and what makes the instrument the first to check."""
    lines: list[Component] = []
    if doubted_by := alert.get("instrument_alerts"):
        kinds = ", ".join(map(kind_name, doubted_by))
        lines.append(html.P(f"check the instrument first: {kinds} on this run", className="doubted"))
    if suspect := alert.get("suspect"):
        title = "The part of the training that this kind of alert points at: where to look first, and no proof"
        lines.append(html.P(["suspect: ", html.B(suspect)], className="when", title=title))
    return lines


def _age(alert: AlertItem) -> list[Component | str]:
    """Return how long ago a firing alert was opened."""
    at = alert.get("opened_at")
    return [] if at is None or alert["state"] != "firing" else [", opened ", since(at)]


def _when(alert: AlertItem) -> str:
    phase = f" in {alert['phase']}" if alert.get("phase") else ""
    graver = f", {alert['severity']} since {alert['severity_step']:,}"
    raised = graver if alert["severity_step"] > alert["opened_step"] else ""
    if alert["state"] == "resolved":
        until = "until the run went back to step" if alert.get("is_taken_back") else "to"
        end = f"{until} {plain(alert.get('resolved_step'))}{',' if phase else ''}"
        return f"from step {alert['opened_step']:,} {end}{phase}{raised}"
    return f"since step {alert['opened_step']:,}{phase}{raised}"
