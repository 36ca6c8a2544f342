"""The page of a link: its action, its run and its end, and after its use the result.

It has no script, and loads nothing. Opening it changes nothing, because programs open links before people do.
"""

import math
from typing import Final
from urllib.parse import quote

from monitor_server.action_links.issuing import LinkAction
from monitor_server.action_links.using import FoundLink, LinkState
from monitor_server.alerts.liveness import LOST
from monitor_server.durations import spell_time
from monitor_server.html_report.elements import chip, document, text
from monitor_server.text_safety.printable import printable

__all__ = ["HEADERS", "draw_done", "draw_link", "draw_problem", "draw_unknown"]

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the address is the right to act
    "X-Robots-Tag": "noindex, nofollow",
}

STYLE: Final = """<style>
main { max-width: 34rem; margin: 0 auto; } form { margin: 1.2rem 0 .4rem; } dl { margin: 1rem 0 0; }
button { width: 100%; min-height: 3rem; border: 0; border-radius: 10px; background: var(--accent);
  color: var(--surface); font: inherit; font-weight: 600; cursor: pointer; }
button:focus-visible, a:focus-visible { outline: 3px solid var(--ink); outline-offset: 2px; }
a { color: var(--accent); }
</style>"""

BUTTONS: Final = {
    LinkAction.ACKNOWLEDGE: "Acknowledge the alert",
    LinkAction.SILENCE: "Silence the alert for an hour",
    LinkAction.STOP: "Stop the run",
    LinkAction.ROLLBACK: "Go back to the last healthy checkpoint",
}
EFFECTS: Final = {
    LinkAction.ACKNOWLEDGE: "The alert is marked as acknowledged, and escalations end. The run continues unchanged.",
    LinkAction.SILENCE: "This alert causes no notification for an hour. The run continues unchanged.",
    LinkAction.STOP: "The trainer is asked to end training after its next steps. It does so only if the person who "
    "started it allows such requests, and it answers in the history of the alert.",
    LinkAction.ROLLBACK: "The trainer is asked to go back to the last healthy checkpoint. Later steps are lost. It "
    "does so only if the person who started it allows such requests, and it answers in the history of the alert.",
}
GIVES_UP: Final = (
    "The alert is marked as acknowledged, and escalations end. The run is given up: it counts as stopped until its "
    "trainer sends again."
)
HAS_DONE: Final = {
    LinkAction.ACKNOWLEDGE: "It acknowledged the alert.",
    LinkAction.SILENCE: "It silenced the alert for an hour.",
    LinkAction.STOP: "It asked the trainer to stop.",
    LinkAction.ROLLBACK: "It asked the trainer to go back to the last healthy checkpoint.",
}
UNKNOWN: Final = {
    LinkAction.ACKNOWLEDGE: "whether the alert is acknowledged",
    LinkAction.SILENCE: "whether the alert is silenced",
    LinkAction.STOP: "whether the trainer is asked to stop",
    LinkAction.ROLLBACK: "whether the trainer is asked to go back",
}
DONE: Final = {
    LinkAction.ACKNOWLEDGE: "The alert is acknowledged.",
    LinkAction.SILENCE: "The alert is silenced for an hour.",
    LinkAction.STOP: "The trainer is asked to stop. Its answer follows in the history of the alert.",
    LinkAction.ROLLBACK: "The trainer is asked to go back. Its answer follows in the history of the alert.",
}


def draw_link(found: FoundLink, *, now: float) -> str:
    """Draw the page of a link: with a form if it can be used, and otherwise with the reason.

    A link that no longer holds shows nothing of the run, because messages are kept for long, and are forwarded.
    """
    action = LinkAction(found.link.action)
    if found.state is not LinkState.OPEN:
        return _page("This link cannot be used", f"<p>{text(_reason(found))}</p>{_address(found)}")
    minutes = max(1, math.ceil((found.link.expires_at - now) / 60.0))
    body = (
        f"<p>{text(_effect(found))}</p>{_alert(found)}"
        f'<form method="post"><input type="hidden" name="confirmation" value="{text(found.confirmation)}">'
        f"<button>{text(BUTTONS[action])}</button></form>"
        f'<p class="muted">The link can be used once, until {spell_time(found.link.expires_at)} (for '
        f"{minutes} more minute{'s' if minutes > 1 else ''}). It was sent to the channel {text(found.link.channel)}, "
        "and that name is recorded.</p>"
    )
    return _page(f"{BUTTONS[action]}?", body)


def draw_done(used: FoundLink, *, now: FoundLink | None) -> str:
    """Draw the page that follows the use of a link.

    Args:
        used: The link.
        now: The link with the alert after its use; None if this could not be read.
    """
    shown = _address(used) if now is None else _alert(now)
    return _page("Done", f"<p>{text(DONE[LinkAction(used.link.action)])}</p>{shown}")


def draw_unknown(found: FoundLink) -> str:
    """Draw the page after a failure that leaves it unknown whether the link has acted."""
    unknown = UNKNOWN[LinkAction(found.link.action)]
    words = (
        f"The collector's database did not confirm the change. It is not known {unknown}. "
        "Open the alert to see its state, or open the link again in a minute: the page shows whether it was used."
    )
    return _page("Not known", f"<p>{text(words)}</p>{_address(found)}")


def draw_problem(heading: str, words: str) -> str:
    """Draw a page without data of a run."""
    return _page(heading, f"<p>{text(words)}</p>")


def _effect(found: FoundLink) -> str:
    """Return what a press of the button does; the acknowledgement of a lost trainer also gives its run up."""
    action = LinkAction(found.link.action)
    return GIVES_UP if action is LinkAction.ACKNOWLEDGE and found.alert.kind == LOST else EFFECTS[action]


def _reason(found: FoundLink) -> str:
    link = found.link
    if found.state is LinkState.USED:
        done = HAS_DONE[LinkAction(link.action)]
        when = spell_time(link.used_at or 0.0)
        return f"It was used at {when} by a reader of the channel {link.channel}. {done} Each link can be used once."
    if found.state is LinkState.EXPIRED:
        end = spell_time(link.expires_at)
        return f"It was valid until {end}. Act on the page of the alert, or wait for the next message."
    return "The alert is resolved, and nothing is left to do."


def _alert(found: FoundLink) -> str:
    alert = found.alert
    state = alert.stage.replace("_", " ")
    if alert.acknowledged_by is not None and alert.state != "resolved":
        state += f", acknowledged by {printable(alert.acknowledged_by, longest=80)}"
    if alert.stage == "silenced" and alert.silenced_until is not None:
        state += f" until {spell_time(alert.silenced_until)}"
    rows = {
        "Run": f"{text(printable(found.run, longest=200))} of project {text(printable(found.project, longest=200))}",
        "Alert": f"{text(alert.kind)} {chip(alert.severity)} since step {alert.opened_step}",
        "State of the alert": text(state),
        "Evidence": text(printable(alert.summary, longest=400)),
    }
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows.items())
    return f"<dl>{listed}</dl>{_address(found)}"


def _address(found: FoundLink) -> str:
    """Link to the alert on the dashboard, which shows it to people with the permission."""
    alert = found.alert
    address = f"/runs/{quote(alert.run_id, safe='')}/alerts/{quote(alert.id, safe='')}"
    return f'<p><a href="{text(address)}">Open the alert on the dashboard</a></p>'


def _page(heading: str, body: str) -> str:
    return document(f"{heading} · rlvitals", f"{STYLE}<main><article><h1>{text(heading)}</h1>{body}</article></main>")
