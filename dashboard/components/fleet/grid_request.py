"""Converts the requests of AG Grid and of the controls above it to parameters of the API's lists of runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from dashboard.collector_client.answers import find_original_texts, is_addressable
from dashboard.collector_client.http_requests import Query

__all__ = ["STATES", "Controls", "build_run_query", "left_out", "limit_closed_groups", "sort_of"]

NAMES: Final = {"step": "last_step", "change": "reward_change", "lead": "leading_alert", "gpu_hours": "alert_gpu_hours"}
STATES: Final = {"running": ["running"], "silent": ["stalled", "lost"], "ended": ["finished", "stopped"]}
URGENCY: Final = "urgency"
UNSORTED: Final = ("sparkline", "tags")  # columns with several values a cell; an address may ask to sort by them
FAR: Final = 1e99
# The limits of a request that the collector accepts: sort columns, conditions, words, letters, and closed groups.
MAX_SORTED, MAX_CONDITIONS, MAX_WORDS, MAX_LETTERS, MAX_CLOSED = 4, 8, 10, 200, 100
MAX_CLOSED_BYTES: Final = 32_000  # of all names in an address; the collector accepts request headers of 64 KiB


@dataclass(frozen=True, slots=True)
class Controls:
    """The values of the controls above the table, in the order in which callbacks pass them."""

    text: str | None
    project: str | None
    state: str | None
    group: str | None
    archived: Sequence[str] | None


def sort_of(request: Mapping[str, Any]) -> str:
    """Return the order of a request; by urgency if the reader has chosen no order."""
    return ",".join(_sorts(request)[:MAX_SORTED]) or URGENCY


def limit_closed_groups(closed: Sequence[object]) -> list[str]:
    """Return the groups that were closed last, as many as the collector accepts in one request."""
    asked: list[str] = []
    size = 0
    for shown in reversed(closed):
        meant = find_original_texts(shown) if isinstance(shown, str) else []
        names = [name for name in meant if len(name) <= MAX_LETTERS]
        size += sum(len(quote(name, errors="replace")) + len("&closed=") for name in names)
        if size > MAX_CLOSED_BYTES or len(asked) + len(names) > MAX_CLOSED:
            break
        asked += names
    return asked


def build_run_query(request: Mapping[str, Any], controls: Controls) -> Query:
    """Return the filters of the controls and of the column headings as parameters of the API."""
    wanted: Query = {}
    if words := (controls.text or "")[:MAX_LETTERS].split()[:MAX_WORDS]:
        wanted["text"] = " ".join(words)
    if controls.project:
        wanted["project"] = controls.project
    if controls.state in STATES:
        wanted["status"] = STATES[controls.state]
    if not controls.archived:
        wanted["archived"] = "false"
    if conditions := _all_conditions(request):
        wanted["where"] = conditions[:MAX_CONDITIONS]
    return wanted


def left_out(request: Mapping[str, Any], controls: Controls) -> list[str]:
    """Return sentences about the settings that are not sent, because the collector would refuse them."""
    text, sentences = controls.text or "", []
    if len(text) > MAX_LETTERS or len(text.split()) > MAX_WORDS:
        sentences.append(f"Only the first {MAX_WORDS} words and {MAX_LETTERS} letters are used for the search")
    if len(_all_conditions(request)) > MAX_CONDITIONS:
        sentences.append(f"Only the first {MAX_CONDITIONS} conditions of the headings are applied")
    if len(_sorts(request)) > MAX_SORTED:
        sentences.append(f"Only the first {MAX_SORTED} columns are used for sorting")
    return sentences


def _sorts(request: Mapping[str, Any]) -> list[str]:
    return [
        f"{NAMES.get(each['colId'], each['colId'])}:{each['sort']}"
        for each in request.get("sortModel") or ()
        if each["colId"] not in UNSORTED
    ]


def _all_conditions(request: Mapping[str, Any]) -> list[str]:
    return [
        condition
        for column, model in (request.get("filterModel") or {}).items()
        for condition in _conditions(NAMES.get(column, column), model)
    ]


def _conditions(column: str, model: object) -> list[str]:
    """Return the conditions of a filter of AG Grid; empty for a filter that the table does not offer."""
    if not isinstance(model, Mapping):
        return []
    value, end = model.get("filter"), _number(model.get("filterTo"))
    number = _number(value)
    match model.get("type"):
        case "contains" if isinstance(value, str) and value and is_addressable(value):
            return [f"{column}:contains:{value[:MAX_LETTERS]}"]
        case "greaterThan" if number:
            return [f"{column}:above:{number}"]
        case "lessThan" if number:
            return [f"{column}:below:{number}"]
        case "inRange" if number and end:
            return [f"{column}:above:{number}", f"{column}:below:{end}"]
    return []


def _number(value: object) -> str:
    """Return a number in the API's form, with at most two digits of an exponent; empty if it is not a number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return f"{max(-FAR, min(FAR, value)):.15g}" if abs(value) > 1 / FAR else "0"
