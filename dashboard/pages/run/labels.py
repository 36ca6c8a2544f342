"""The callbacks of the form that changes the labels and notes of a run, and archives or deletes the run."""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any, Final

from dash import Dash, Input, Output, State, no_update, set_props

from dashboard.collector_client.client import ApiClient
from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.components.run.labels import encode_labels, find_tag_problem, notes_properties, parse_tags
from dashboard.ids import frame as frame_ids
from dashboard.ids import run as run_ids

__all__ = ["register"]

SHOWN_LETTERS: Final = 80  # of a text that another person has written


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def save(  # noqa: PLR0917 - Dash passes inputs by their places
        clicks: int | None,
        title: str | None,
        tags: str | None,
        notes: str | None,
        archived: list[str],
        held: Mapping[str, object],
        live: Mapping[str, str],
    ) -> tuple[object, object]:
        if not clicks:  # the button was drawn and not clicked
            return no_update, no_update
        written = {
            "title": (title or "").strip() or None,
            "tags": parse_tags(tags),
            "notes": (notes or "").strip() or None,
            "archived": bool(archived),
        }
        problem = find_tag_problem(parse_tags(tags))
        if problem:
            return f"Not saved. {problem}", no_update
        changed = {name: value for name, value in written.items() if value != held[name]}
        if not changed:
            return "Nothing was changed.", no_update
        try:
            async with ApiClient(api_url) as api:
                now = encode_labels(await api.runs.get(live["run"]))
                taken = [name for name, value in changed.items() if now[name] not in (held[name], value)]
                if taken:
                    return _conflict_message(taken, now), {**held, **{name: now[name] for name in taken}}
                await api.runs.label(live["run"], **changed)
        except ApiError as error:
            return describe_failure("Not saved.", error), no_update
        _fill({**now, **changed})
        set_props(run_ids.REFRESH, {"data": f"labels {clicks}"})
        return "Saved.", {**now, **changed}

    async def delete(confirmed: int | None, live: Mapping[str, str]) -> tuple[object, object]:
        if not confirmed:
            return no_update, no_update
        try:
            async with ApiClient(api_url) as api:
                await api.runs.delete(live["run"])
        except ApiError as error:
            return describe_failure("Not deleted.", error), no_update
        return "Deleted.", "/"

    app.callback(
        Output(run_ids.LABEL_STATE, "children"),
        Output(run_ids.LABEL_HELD, "data"),
        Input(run_ids.LABEL_SAVE, "n_clicks"),
        State(run_ids.LABEL_TITLE, "value"),
        State(run_ids.LABEL_TAGS, "value"),
        State(run_ids.LABEL_NOTES, "value"),
        State(run_ids.LABEL_ARCHIVED, "value"),
        State(run_ids.LABEL_HELD, "data"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(save)
    app.callback(
        Output(run_ids.LABEL_STATE, "children", allow_duplicate=True),
        Output(frame_ids.ADDRESS, "pathname", allow_duplicate=True),
        Input(run_ids.DELETE_CONFIRMED, "submit_n_clicks"),
        State(frame_ids.LIVE, "data"),
        prevent_initial_call=True,
    )(delete)
    app.clientside_callback(
        "(clicks) => Boolean(clicks)",
        Output(run_ids.DELETE_CONFIRMED, "displayed"),
        Input(run_ids.DELETE, "n_clicks"),
        prevent_initial_call=True,
    )


def _conflict_message(names: Sequence[str], now: Mapping[str, object]) -> str:
    """Return a message about the fields that another person has changed since the form was filled."""
    changes = "; ".join(f"{name} to {shorten(_spell(now[name]), SHOWN_LETTERS, placeholder='…')}" for name in names)
    return f"Not saved. Somebody has changed this meanwhile: {changes}. Save again to replace it."


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "archived" if value else "not archived"
    return repr(", ".join(map(str, value)) if isinstance(value, list) else str(value or ""))


def _fill(labels: Mapping[str, Any]) -> None:
    """Show the stored labels in the form, including the changes of other people."""
    set_props(run_ids.LABEL_NOTES_SHOWN, notes_properties(labels["notes"]))
    set_props(run_ids.LABEL_TITLE, {"value": labels["title"] or ""})
    set_props(run_ids.LABEL_TAGS, {"value": ", ".join(labels["tags"])})
    set_props(run_ids.LABEL_NOTES, {"value": labels["notes"] or ""})
    set_props(run_ids.LABEL_ARCHIVED, {"value": ["archived"] if labels["archived"] else []})
