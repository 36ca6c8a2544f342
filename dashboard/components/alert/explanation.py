"""Draws the attribution of an alert: onsets, actions, responses, tokens, remedies, and unobserved parts."""

from collections.abc import Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import Attribution, Moved, ResponseItem
from dashboard.components.responses.card import response_card
from dashboard.components.responses.pairs import alike
from dashboard.components.responses.token_strip import VISIBLE_LINES
from dashboard.components.values import plain

__all__ = ["explanation"]

ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
VISIBLE_SPACES: Final = VISIBLE_LINES | {ord(" "): "␣"}
ARROWS: Final = {"rise": "↑", "fall": "↓", "not finite": "✕"}


def explanation(attribution: Attribution, evidence: Component, *, opened_step: int) -> list[Component]:
    """Return one card for each part that was observed, one that lists the parts that were not, and the evidence.

    The cards are in two columns; those of responses are below both columns.
    """
    by_id = {response["id"]: response for response in attribution["responses"]}
    parts = [
        _column(
            _moved_card(attribution["moved"], opened_step),
            _action_card(attribution),
            _tokens(attribution),
            _missing_card(attribution),
        ),
        _column(_remedies(attribution), evidence),
        _leading_card(attribution, by_id),
        _resembling_card(attribution, by_id),
    ]
    return [part for part in parts if part is not None]


def _column(*cards: Component | None) -> Component:
    return html.Div([card for card in cards if card is not None], className="column")


def _card(title: str, hint: str, *children: Component, name: str) -> Component:
    return html.Section([html.H2(title), html.P(hint, className="aside"), *children], className=f"card explains {name}")


def _moved_card(moved: Sequence[Moved], opened_step: int) -> Component:
    if not moved:
        hint = "No signal had clearly left its best level, or none was observed for long enough."
        return _card("What moved first", hint, name="moved")
    first = min(signal["onset"][0] for signal in moved)
    span = max(1, opened_step - first)
    rows = [_moved_row(place, signal, first, span) for place, signal in enumerate(moved, 1)]
    axis = html.Div([html.Span(f"step {first}"), html.Span(f"alert at {opened_step}")], className="onset-axis")
    hint = (
        "The bar of a signal is the interval of steps in which it began to leave its best level. "
        "Where two bars overlap, their order is not known."
    )
    return _card("What moved first", hint, html.Ol(rows, className="onsets"), axis, name="moved")


def _moved_row(place: int, signal: Moved, first: int, span: int) -> Component:
    earliest, latest = signal["onset"]
    left = 100 * (earliest - first) / span
    bar = {"left": f"{left:.1f}%", "width": f"{max(1.5, 100 * (latest - earliest) / span):.1f}%"}
    ends = (signal["baseline"], signal["level"])
    change = (
        "never finite"
        if ends == (None, None)
        else " → ".join("not finite" if end is None else plain(end) for end in ends)
    )
    when = plain([earliest, latest])
    return html.Li(
        [
            html.Span(
                [html.B(signal["signal"]), f"\N{NO-BREAK SPACE}{ARROWS.get(signal['direction'], '')}"],
                className="onset-name",
            ),
            html.Span(html.Span(style=bar), className="onset-bar", title=f"began at step {when}"),
            html.Span(when, className="onset-steps"),
            html.Span(change, className="onset-change"),
            html.Span("surely later" if signal["is_surely_later"] else "", className="onset-order"),
        ],
        **{"data-place": str(place)},
    )


def _action_card(attribution: Attribution) -> Component | None:
    sampled = {action["action"]: action for action in attribution["sampled_actions"]}
    signals = {action["action"]: action for action in attribution["actions"]}
    if not sampled and not signals:
        return None
    heads = html.Tr([html.Th(name) for name in ("action", "ln p before", "at the alert", "change", "sampled")])
    rows = []
    for action in sorted(sampled.keys() | signals.keys()):
        own, few = signals.get(action), sampled.get(action)
        cells = [plain(own[key]) for key in ("before", "at_alert", "change")] if own else ["–"] * 3
        rows.append(html.Tr([html.Td(cell) for cell in (_ordinal(action), *cells, plain(few["mean"]) if few else "–")]))
    crossed = attribution["crossed_step"]
    note = (
        [] if crossed is None else [html.P(f"The first action is less likely than the second from step {crossed} on.")]
    )
    hint = "Of correct responses, in nats per token. Sampled: the mean displacement in the sampled responses."
    table = html.Div(html.Table([html.Thead(heads), html.Tbody(rows)]), className="scroll", tabIndex="0")
    return _card("Which actions", hint, table, *note, name="by-action")


def _leading_card(attribution: Attribution, by_id: dict[str, ResponseItem]) -> Component | None:
    if not attribution["displaced"]:
        return None
    hint = {
        "displacement": "The sampled responses whose likelihood fell most. Red tokens fell, blue tokens rose, grey is "
        "feedback.",
        "likelihood": "Displacement was not observed. These are the least likely correct responses; red tokens are "
        "unlikely.",
    }.get(attribution["measure"] or "", "")
    strips = [response_card(by_id[name]) for name in attribution["displaced"]]
    return _card("Which responses lead", hint, *strips, name="leading")


def _resembling_card(attribution: Attribution, by_id: dict[str, ResponseItem]) -> Component | None:
    if not attribution["resembling"]:
        return None
    strips = [
        response_card(
            by_id[pair["response"]],
            alike(pair),
            shared_prefix=pair["shared_prefix"],
        )
        for pair in attribution["resembling"]
    ]
    hint = (
        "Incorrect responses of the same group; the shared beginning is underlined. Their negative gradient "
        "lowers the likelihood of correct responses in the parts that are alike."
    )
    return _card("Which incorrect responses resemble them", hint, *strips, name="resembling")


def _tokens(attribution: Attribution) -> Component | None:
    if not attribution["tokens"]:
        return None
    rows = [
        html.Li(
            [
                html.Span((token["text"] or str(token["token_id"])).translate(VISIBLE_SPACES), className="token-name"),
                html.Span(html.Span(style={"width": f"{100 * token['share']:.1f}%"}), className="share-bar"),
                html.Span(f"{plain(round(100 * token['share']))} %"),
                html.Span(f"{plain(token['fall'])} nat, {token['count']}×", className="token-facts"),
            ]
        )
        for token in attribution["tokens"]
    ]
    return _card(
        "Which tokens", "Share of the fall of the responses below.", html.Ol(rows, className="shares"), name="by-token"
    )


def _remedies(attribution: Attribution) -> Component:
    hint = "Changes that the literature, or an experiment of this project, found to help with this kind of alert."
    if not attribution["remedies"]:
        return _card("What helps", f"To do first: {attribution['first_steps']}", name="remedies")
    rows = [
        html.Li([html.Strong(remedy["change"]), html.P(remedy["how"]), html.P(remedy["source"], className="source")])
        for remedy in attribution["remedies"]
    ]
    return _card("What helps", hint, html.Ul(rows), name="remedies")


def _missing_card(attribution: Attribution) -> Component | None:
    if not attribution["not_observed"]:
        return None
    rows = [html.Li([html.B(gap["what"]), f": needs {gap['needs']}"]) for gap in attribution["not_observed"]]
    return _card(
        "Not observed",
        "Parts that could not be computed, and the data that each of them needs.",
        html.Ul(rows),
        name="missing",
    )


def _ordinal(action: int) -> str:
    return ORDINALS[action] if action < len(ORDINALS) else str(action + 1)
