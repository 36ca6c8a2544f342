"""Draws the forks that a trainer has tried because of an alert, side by side."""

import math
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.alerts import ActionItem, ForkItem
from dashboard.components.small_elements import badge
from dashboard.figures.curves.lines import spell_value

__all__ = ["fork_cards"]

HEADINGS = (
    "fork",
    "reward",
    "against unchanged",
    "likelihood of correct responses",
    "against unchanged",
    "entropy",
    "steps",
)


def fork_cards(actions: Sequence[ActionItem]) -> list[Component]:
    """Return a card for each time that the trainer has forked its run, the newest first."""
    return [_card(action) for action in actions if action["forks"]]


def _card(action: ActionItem) -> Component:
    rows = [html.Tr(_cells(fork), **{"data-winner": str(fork["is_winner"]).lower()}) for fork in action["forks"]]
    return html.Section(
        className="card explains forks-card",
        children=[
            html.H2("What would help: forks of this run"),
            html.P(action["detail"]),
            html.Div(
                html.Table([html.Thead(html.Tr([html.Th(heading) for heading in HEADINGS])), html.Tbody(rows)]),
                className="scroll",
                tabIndex="0",
            ),
            html.P(
                "Measured on held-out contexts that are the same for all forks. Likelihood and entropy are changes in "
                "nats a token since the healthy checkpoint; a difference to the unchanged fork is followed by its 95 % "
                "interval.",
                className="when",
            ),
        ],
    )


def _cells(fork: ForkItem) -> list[Component]:
    mark = [" ", badge("outcome", "taken", text="goes on")] if fork["is_winner"] else []
    lost = [" ", badge("severity", "critical", text="diverged")] if fork["has_diverged"] else []
    is_control = fork["name"] == "unchanged"
    return [
        html.Th([fork["name"], *mark, *lost], scope="row"),
        html.Td(spell_value(fork["reward"], ".2f")),
        html.Td("–" if is_control else _interval(fork["reward_gain"], "+.2f")),
        html.Td(spell_value(fork["displacement"], "+.3f")),
        html.Td("–" if is_control else _interval(fork["displacement_gain"], "+.3f")),
        html.Td(spell_value(fork["entropy"], "+.3f")),
        html.Td(str(fork["steps"])),
    ]


def _interval(gain: Sequence[float], form: str) -> str:
    low, mean, high = gain
    if not math.isfinite(mean):
        return "not observed"
    return f"{spell_value(mean, form)} ({spell_value(low, form)} to {spell_value(high, form)})"
