"""The attribution of an alert, as sections of the report."""

import math
from collections.abc import Sequence

from monitor_server.api.attribution import Attribution
from monitor_server.api.schemas import ResponseItem
from monitor_server.html_report.elements import text, token

__all__ = ["explanation_sections"]

MAX_CHARACTERS = 4000  # of a response on the page; the data of the page contains all of it
SHOWN_TOKENS = 8  # of a response, those that fell or differ most


def explanation_sections(found: Attribution, *, opened_step: int) -> str:
    """Return a section for each part of the attribution that was observed, and one for the missing parts."""
    return "".join(
        [
            _moved_section(found, opened_step),
            _actions(found),
            _remedies(found),
            _responses(found),
            _tokens(found),
            _gaps(found),
        ]
    )


def _moved_section(found: Attribution, opened_step: int) -> str:
    if not found.moved:
        return "<h2>What moved first</h2><p>No signal had clearly left its best level, or none was observed.</p>"
    rows = "".join(
        f"<tr><td>{text(moved.signal)}</td><td>{text(moved.direction)}</td>"
        f'<td class="number">{moved.onset[0]} to {moved.onset[1]}</td>'
        f'<td class="number">{_number(moved.baseline)}</td><td class="number">{_number(moved.level)}</td></tr>'
        for moved in found.moved
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("began at step", "best level", "at the alert"))
    return (
        f"<h2>What moved first, before step {opened_step}</h2>"
        f'<div class="scroll"><table><thead><tr><th>signal</th><th>direction</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _actions(found: Attribution) -> str:
    if not found.actions:
        return ""
    rows = "".join(
        f'<tr><td class="number">{each.action + 1}</td><td class="number">{_number(each.before)}</td>'
        f'<td class="number">{_number(each.at_alert)}</td><td class="number">{_number(each.change)}</td></tr>'
        for each in found.actions
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("action", "before", "at the alert", "change"))
    return (
        "<h2>Likelihood of correct responses by action, nats per token</h2>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _remedies(found: Attribution) -> str:
    listed = "".join(
        f'<dt>{text(each.change)}</dt><dd>{text(each.how)} <span class="muted">{text(each.source)}</span></dd>'
        for each in found.remedies
    )
    helps = f"<dl>{listed}</dl>" if listed else f"<p>To do first: {text(found.first_steps)}</p>"
    return f"<h2>What helps</h2>{helps}"


def _responses(found: Attribution) -> str:
    by_id = {response.id: response for response in found.responses}
    displaced = [_response(by_id[name]) for name in found.displaced if name in by_id]
    alike = [_response(by_id[pair.response]) for pair in found.resembling if pair.response in by_id]
    parts = [("Which responses lead", displaced), ("Which incorrect responses resemble them", alike)]
    return "".join(f"<h2>{title}</h2>{''.join(cards)}" for title, cards in parts if cards)


def _response(response: ResponseItem) -> str:
    facts = [
        f"step {response.step}",
        "correct" if response.correct else "incorrect",
        f"reward {_number(response.reward)}",
        f"{response.length} tokens",
        f"displacement {_number(response.displacement)} nat",
    ]
    content = response.text or "".join(response.pieces or ())
    words = text(content[:MAX_CHARACTERS]) if content else "no text was sent"
    return (
        f"<details><summary>{text(', '.join(facts))}</summary><pre>{words}</pre>"
        f"<p>Tokens of its actions that fell most: {_falls(response)}.</p>"
        f"<p>Tokens on which trainer and sampler differ most, in nats: {_mismatches(response)}.</p></details>"
    )


def _falls(response: ResponseItem) -> str:
    """Return the tokens of a response whose likelihood fell most, the deepest fall first."""
    if response.displacements is None:
        return "not observed"
    # Negative values are selected first, because NaN has no place in an order.
    falls = sorted(pair for pair in zip(response.displacements, _places(response), strict=False) if pair[0] < 0)
    return _token_list(response, falls[:SHOWN_TOKENS]) or "none fell"


def _mismatches(response: ResponseItem) -> str:
    """Return the tokens of a response on which trainer and sampler differ most, those without a finite gap first."""
    if response.mismatches is None:
        return "not observed"
    gaps = [pair for pair in zip(response.mismatches, _places(response), strict=False) if pair[0] != 0]
    gaps.sort(key=lambda pair: -abs(pair[0]) if math.isfinite(pair[0]) else -math.inf)
    return _token_list(response, gaps[:SHOWN_TOKENS]) or "none differs"


def _places(response: ResponseItem) -> list[int]:
    return [place for first, after in response.actions for place in range(first, after)]


def _token_list(response: ResponseItem, found: Sequence[tuple[float, int]]) -> str:
    return ", ".join(f"{_token(response, place)} {_number(value)}" for value, place in found)


def _token(response: ResponseItem, place: int) -> str:
    if response.pieces is not None and place < len(response.pieces) and response.pieces[place]:
        return token(response.pieces[place])
    if response.token_ids is not None and place < len(response.token_ids):
        return f"<code>token {response.token_ids[place]}</code>"
    return f"<code>place {place}</code>"


def _tokens(found: Attribution) -> str:
    rows = "".join(
        f"<tr><td>{token(each.text or each.token_id)}</td>"
        f'<td class="number">{100 * each.share:.0f} %</td><td class="number">{_number(each.fall)}</td>'
        f'<td class="number">{each.count}</td></tr>'
        for each in found.tokens
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("share of the fall", "nats", "times"))
    table = (
        f'<div class="scroll"><table><thead><tr><th>token</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return f"<h2>Which tokens</h2>{table}" if rows else ""


def _gaps(found: Attribution) -> str:
    listed = "".join(f"<dt>{text(gap.what)}</dt><dd>needs {text(gap.needs)}</dd>" for gap in found.not_observed)
    return f"<h2>Not observed</h2><dl>{listed}</dl>" if listed else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
