"""Describes a response as a strip of tokens, each coloured by a measure.

The browser draws the tokens (assets/draw_tokens.js): a page of responses has thousands, and each would be a component.
"""

import json
import math
from collections.abc import Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from dashboard.collector_client.types.responses import ResponseItem
from dashboard.components.responses.measures import MEASURES, TokenMeasure
from dashboard.components.values import plain

__all__ = ["VISIBLE_LINES", "token_strip"]

VISIBLE_LINES: Final = {ord("\n"): "⏎", ord("\t"): "⇥"}  # signs for white space, by its code, for `str.translate`
MOST_TOKENS: Final = 300  # tokens drawn at first; more tokens make the page slower and not clearer
MOST_SENT: Final = 2400  # tokens sent to a browser, which draws those before and after on request
SHARED_SHOWN: Final = 12  # shown tokens of a shared beginning, before the first that differs; the others are folded


def token_strip(response: ResponseItem, *, shared_prefix: int = 0, measure: str | None = None) -> Component:
    """Return the tokens around the worst token, with answers marked; further tokens are drawn on request.

    Feedback is dimmed, a shared beginning underlined and folded.

    A token is shown by its text, or by its id where texts are not sent. It has a state, a text, a heat
    in percent and a title.

    Args:
        response: A response with its tokens.
        shared_prefix: Number of tokens at the beginning that another response has as well.
        measure: The measure that colours the tokens, a key of `MEASURES`; by default the displacement, or else the
            log-probability.
            Tokens without the measure are not coloured.
    """
    whole = response["actions"][-1][1] if response["actions"] else 0
    by = MEASURES[measure or ("displacement" if response["displacements"] else "log-probability")]
    numbers = by.numbers(response)
    values = _by_place(response, numbers, whole)
    badness = [by.badness(value) for value in values]
    first, after = _window(badness, most=MOST_TOKENS)
    sent, end = _window(badness, most=MOST_SENT)
    full = by.full_size(numbers)
    chips = [
        _chip(response, place, values[place], by=by, full=full, is_shared=place < shared_prefix)
        for place in range(sent, end)
    ]
    spoken = sum(end - begin for begin, end in response["actions"])
    rest = whole - end + response["length"] - spoken
    described = {
        "before": sent,
        "folded": max(0, min(shared_prefix, after) - first - SHARED_SHOWN),
        "shown": [first - sent, after - sent],
        "tokens": chips,
        "after": max(0, rest),
    }
    spelled = json.dumps(described, ensure_ascii=False, separators=(",", ":"))
    return html.Div(className="tokens", tabIndex="0", role="group", **{"data-tokens": spelled})


def _by_place(response: ResponseItem, numbers: Sequence[float], whole: int) -> list[float | None]:
    """Place the numbers of action tokens at their positions among all tokens; feedback gets None."""
    laid: list[float | None] = [None] * whole
    remaining = iter(numbers)
    for begin, end in response["actions"]:
        for place in range(begin, end):
            laid[place] = next(remaining, None)
    return laid


def _window(badness: Sequence[float], *, most: int) -> tuple[int, int]:
    """Return where the tokens around the worst one begin and end."""
    whole = len(badness)
    if whole <= most:
        return 0, whole
    worst = min(range(whole), key=badness.__getitem__)
    first = min(max(0, worst - most // 2), whole - most)
    return first, first + most


def _chip(
    response: ResponseItem, place: int, value: float | None, *, by: TokenMeasure, full: float, is_shared: bool
) -> tuple[str, str, int, str]:
    if value is None:
        state, heat = ("feedback" if not _is_action(response, place) else "unmeasured"), 0.0
    elif not math.isfinite(value):
        state, heat = "broken", 1.0
    else:
        state, heat = "fell" if value < 0 else "rose", min(1.0, abs(value) / full)
    answers = response.get("answers", [])  # an older collector sends none
    is_answer = any(begin <= place < end for begin, end in answers)
    marks = [
        *(["shared"] if is_shared else []),
        *(["answer"] if is_answer else []),
        *(["opens"] if any(place == begin for begin, _ in answers) else []),
        *(name for end, name in ((0, "begins"), (1, "ends")) if _is_end(response, place, end)),
    ]
    return (
        " ".join([state, *marks]),
        _text(response, place),
        round(100 * heat),
        _title(response, place, value, by) + (", answer" if is_answer else ""),
    )


def _text(response: ResponseItem, place: int) -> str:
    pieces, ids = response["pieces"], response["token_ids"]
    if pieces and pieces[place]:
        return pieces[place].translate(VISIBLE_LINES)
    return "·" if ids is None else str(ids[place])


def _is_action(response: ResponseItem, place: int) -> bool:
    return any(begin <= place < end for begin, end in response["actions"])


def _is_end(response: ResponseItem, place: int, end: int) -> bool:
    """Return whether a token is the first (0) or the last (1) of an action; actions of several tokens have brackets."""
    actions = response["actions"]
    return len(actions) > 1 and any(place == action[end] - end for action in actions)


def _title(response: ResponseItem, place: int, value: float | None, by: TokenMeasure) -> str:
    ids = response["token_ids"]
    name = f"token {place}" if ids is None else f"token {place}, id {ids[place]}"
    if value is None:
        return f"{name}: {'not observed' if _is_action(response, place) else 'feedback'}"
    return f"{name}: {by.title} {plain(by.sign * value)}{by.unit}"
