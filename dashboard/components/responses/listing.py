"""Draws the sampled responses of a run as a list: filters, order, and the members of a group side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.components.responses.card import response_card
from dashboard.components.responses.measure_note import measure_note
from dashboard.components.responses.measures import MEASURES
from dashboard.components.responses.table import anchor, response_table
from dashboard.components.small_elements import number_input, segmented_choice
from dashboard.components.values import read_step
from dashboard.figures.responses.spread import SPREADS
from dashboard.ids import responses as response_ids

__all__ = [
    "ORDERS",
    "USUAL",
    "left_out",
    "listing",
    "no_steps",
    "read_steps",
    "response_controls",
    "shared_prefix",
    "spread_choice",
]

ORDERS: Final = {
    "newest": "newest first",
    "displacement": "most displaced first",
    "reward": "highest reward first",
    "length": "longest first",
    "group": "by group",
    "pairs": "displaced beside resembling",
}
KINDS: Final = ("all", "random", "displaced", "resembling", "unlikely", "longest")  # why a response was sampled
CORRECT: Final = {"all": "all", "true": "correct", "false": "incorrect"}
# The usual values of the controls, by their names in the address; the address leaves them out.
USUAL: Final = {
    "from": None,
    "to": None,
    "correct": "all",
    "kind": "all",
    "order": "newest",
    "colour": "displacement",
    "spread": "reward",
}
LABELS: Final = {
    "displacement": "displacement (log of the ratio)",
    "mismatch": "mismatch (trainer less sampler)",
    "all": "every kind",
}
CHOICES: Final = {"correct": CORRECT, "kind": KINDS, "order": ORDERS, "colour": MEASURES, "spread": SPREADS}
SHOWN_CHARS: Final = 40  # of a value of an address


def response_controls(query: Mapping[str, str], *, last_step: int = 0) -> Component:
    """Return the filters, the order and the measure of the tokens' colour.

    Args:
        query: The query of the address, which may set each of them.
        last_step: The newest step of the run, where the slider of steps ends.
    """
    steps = [
        html.Div(
            [
                html.Label(label, htmlFor=name, className="control-label"),
                number_input(name, inputMode="numeric", value=_step(query.get(key)), debounce=True),
            ],
            className="control steps",
        )
        for name, key, label in ((response_ids.FROM, "from", "From step"), (response_ids.TO, "to", "To step"))
    ]
    return html.Div(
        className="workspace-controls",
        children=[
            *steps,
            *([_slider(_step(query.get("to")), last_step)] if last_step else []),
            segmented_choice(response_ids.CORRECT, "Correctness", CORRECT, query.get("correct")),
            segmented_choice(response_ids.KIND, "Sampled as", _label(KINDS), query.get("kind")),
            segmented_choice(response_ids.MEASURE, "Colour", _label(MEASURES), query.get("colour")),
            segmented_choice(response_ids.ORDER, "Order", ORDERS, query.get("order")),
        ],
    )


def left_out(query: Mapping[str, str]) -> list[Component]:
    """Return a message about the settings of an address that cannot be used; empty if all can be."""
    wrong = [
        f"{name}={value[:SHOWN_CHARS]!r}"
        for name, value in query.items()
        if (name in {"from", "to"} and _step(value) is None) or value not in CHOICES.get(name, (value,))
    ]
    if not wrong:
        return []
    text = f"The address had settings that cannot be used and were left out: {', '.join(wrong)}."
    return [html.P(text, className="left-out", role="status")]


def _step(asked: str | None) -> int | None:
    """Return the step that an address states in plain digits; None if it states anything else."""
    try:
        return read_step(asked)
    except ValueError:
        return None


def _label(names: Iterable[str]) -> dict[str, str]:
    return {name: LABELS.get(name, name) for name in names}


def spread_choice(asked: str | None) -> Component:
    """Return the choice of the quantity that the bars above the responses show."""
    return segmented_choice(response_ids.SPREAD_OF, "Bars of", {name: name for name in SPREADS}, asked)


def _slider(asked: int | None, last_step: int) -> Component:
    """Return the slider that moves through the run: the newest responses up to its step are shown."""
    value = last_step if asked is None else min(asked, last_step)
    slider = dcc.Slider(
        id=response_ids.STEP, min=0, max=last_step, step=1, value=value, marks=None, updatemode="mouseup"
    )
    label = html.Span("Up to step", className="control-label")
    return html.Div([label, slider], className="control smoothing")


def listing(responses: Sequence[ResponseItem], *, order: str, measure: str) -> list[Component]:
    """Return a table of the responses, the meaning of the colours, and a card for each response or each group."""
    if not responses:
        text = "No response is stored for these steps. A trainer samples responses if it sends rollouts with token ids."
        return [html.P(text, className="calm card none-match")]
    if order == "group":
        groups = _groups(responses)
        return [
            response_table([item for members in groups for item in members]),
            measure_note(responses, measure),
            *(_group(members, measure) for members in groups),
        ]
    keys = {
        "displacement": lambda item: item["displacement"] if item["displacement"] is not None else float("inf"),
        "reward": lambda item: -item["reward"],
        "length": lambda item: -item["length"],
    }
    ordered = sorted(responses, key=keys[order]) if order in keys else responses
    cards = (
        html.Section(response_card(item, _kinds(item), measure=measure), className="card explains", id=anchor(item))
        for item in ordered
    )
    return [response_table(ordered), measure_note(responses, measure), *cards]


def read_steps(first: object, last: object) -> tuple[int | None, int | None]:
    """Return the steps that the two fields hold; None where a field is empty.

    Raises:
        ValueError: If a field holds no step, or the interval ends before it begins.
    """
    steps = []
    for label, given in (("From step", first), ("To step", last)):
        try:
            steps.append(read_step(given))
        except ValueError as error:
            raise ValueError(f"{label} {error}.") from None
    begin, end = steps
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"From step must be at most To step, got {begin} and {end}; change one of them.")
    return begin, end


def no_steps(problem: str) -> Component:
    """Return a message in place of the list, for an interval that cannot be shown."""
    return html.P(problem, className="calm card none-match")


def shared_prefix(responses: Sequence[ResponseItem]) -> int:
    """Return how many tokens at the beginning all responses have in common; 0 where token ids are not known."""
    tokens = [response["token_ids"] for response in responses]
    if len(tokens) < 2 or not all(tokens):  # noqa: PLR2004 - one response shares nothing
        return 0
    length = 0
    for column in zip(*(held or [] for held in tokens), strict=False):
        if len(set(column)) > 1:
            break
        length += 1
    return length


def _groups(responses: Sequence[ResponseItem]) -> list[list[ResponseItem]]:
    groups: dict[object, list[ResponseItem]] = {}
    for item in responses:
        key = (item["step"], item["attempt"], item["group"] if item["group"] is not None else item["id"])
        groups.setdefault(key, []).append(item)
    return [sorted(members, key=lambda item: -item["reward"]) for members in groups.values()]


def _group(members: Sequence[ResponseItem], measure: str) -> Component:
    first, prefix = members[0], shared_prefix(members)
    name = f"step {first['step']}" + ("" if first["group"] is None else f", group {first['group']}")
    shared = f"The first {prefix} tokens are equal: underlined, and folded where they are many." if prefix else ""
    cards = [
        html.Div(response_card(item, _kinds(item), shared_prefix=prefix, measure=measure), id=anchor(item))
        for item in members
    ]
    return html.Section(
        [html.H2(name), html.P(shared, className="aside"), html.Div(cards, className="members")],
        className="card explains",
    )


def _kinds(response: ResponseItem) -> str:
    return ", ".join(response["kinds"])
