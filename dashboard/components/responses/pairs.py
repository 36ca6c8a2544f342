"""Draws displaced correct responses, each beside the incorrect one of its group that resembles it most."""

from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import Resembling, ResponseItem, ResponsePairs
from dashboard.components.responses.card import response_card
from dashboard.components.responses.measure_note import measure_note
from dashboard.components.values import plain

__all__ = ["alike", "pairs_listing"]

RANKED: Final = {
    "displacement": "Correct responses whose likelihood fell, the most displaced first",
    "likelihood": "Correct responses of the lowest likelihood (displacement was not observed)",
}
NONE: Final = (
    "These steps have no displaced correct response with an incorrect one in its group. Pairs need sampled "
    "responses with token ids, group_ids and old_logprobs in the rollouts."
)


def pairs_listing(found: ResponsePairs, *, measure: str) -> list[Component]:
    """Return one card for each pair, its two responses side by side, with their shared beginning underlined."""
    if not found["pairs"]:
        return [html.P(NONE, className="calm card none-match")]
    by_id = {response["id"]: response for response in found["responses"]}
    hint = f"{RANKED[found['measure'] or 'displacement']}, each beside the incorrect response that is most alike."
    return [
        html.P(hint, className="aside"),
        measure_note(found["responses"], measure),
        *(_pair(pair, by_id, measure) for pair in found["pairs"]),
    ]


def alike(pair: Resembling) -> str:
    """Return the similarity of two responses in words."""
    return (
        f"{plain(round(100 * pair['resemblance']))} % alike: {pair['shared_prefix']} tokens of beginning shared, "
        f"{plain(round(100 * pair['overlap']))} % of its 4-grams"
    )


def _pair(pair: Resembling, by_id: dict[str, ResponseItem], measure: str) -> Component:
    right, wrong = by_id[pair["displaced"]], by_id[pair["response"]]
    members = [
        response_card(response, note, shared_prefix=pair["shared_prefix"], measure=measure)
        for response, note in ((right, ""), (wrong, alike(pair)))
    ]
    name = f"step {right['step']}, group {right['group']}"
    return html.Section([html.H2(name), html.Div(members, className="members")], className="card explains")
