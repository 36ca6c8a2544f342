"""Draws one sampled response: its facts, its tokens, and its text where texts are sent."""

from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.components.responses.token_strip import token_strip
from dashboard.components.values import plain

__all__ = ["response_card"]

ANSWERS: Final = {
    "tags": ["answer marked"],
    "last_action": ["last action marked as the answer"],
    None: [],
}


def response_card(
    response: ResponseItem, note: str = "", *, shared_prefix: int = 0, measure: str | None = None
) -> Component:
    """Return the facts of a response in one line, and its tokens below.

    Args:
        response: The response.
        note: A further fact.
        shared_prefix: Number of tokens at the beginning that another response has as well.
        measure: The measure that colours the tokens; see `token_strip`.
    """
    change = response["displacement"]
    mean = None if change is None else change / max(1, response["length"])
    facts = [
        f"step {response['step']}",
        "correct" if response["correct"] else "incorrect",
        f"reward {plain(response['reward'])}",
        *([] if response["advantage"] is None else [f"advantage {plain(response['advantage'])}"]),
        f"{response['length']} tokens",
        *(["cut off at the length limit"] if response["truncated"] else []),
        *([] if mean is None else [f"{plain(mean)} nat a token"]),
        *([] if response["trained"] is None else ["trained on" if response["trained"] else "not trained on"]),
        *ANSWERS[response.get("answer_source")],
        *([note] if note else []),
    ]
    text = [html.Details([html.Summary("Text"), html.Pre(response["text"], tabIndex="0")])] if response["text"] else []
    strip = token_strip(response, shared_prefix=shared_prefix, measure=measure)
    return html.Article(
        [html.P(" · ".join(facts), className="facts-line"), strip, *text],
        className="response",
        **{"data-correct": str(response["correct"]).lower()},
    )
