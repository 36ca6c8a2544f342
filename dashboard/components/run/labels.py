"""Draws the labels and notes of a run, and the form that changes them, archives the run or deletes it."""

from collections.abc import Sequence
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.collector_client.types.runs import RunDetail
from dashboard.ids import run as run_ids

__all__ = ["encode_labels", "find_tag_problem", "notes_properties", "parse_tags", "run_labels"]

# As in the API (PATCH /api/v1/runs/{run_id}).
LONGEST_TITLE: Final = 200
LONGEST_NOTES: Final = 20_000
LONGEST_TAG: Final = 64
MOST_TAGS: Final = 32


def run_labels(run: RunDetail) -> Component:
    """Return the notes of a run, and a form that is closed at first."""
    return html.Section(
        className="run-labels",
        children=[
            dcc.Store(id=run_ids.LABEL_HELD, data=encode_labels(run)),
            html.P(id=run_ids.LABEL_NOTES_SHOWN, className="card run-notes", **notes_properties(run.get("notes"))),
            html.Details(
                className="label-form",
                children=[
                    html.Summary("Title, tags, notes, archive, delete"),
                    html.Div(_fields(run), className="card fields"),
                ],
            ),
        ],
    )


def notes_properties(notes: str | None) -> dict[str, object]:
    """Return the properties of the paragraph with the notes, which is hidden where there are none."""
    return {"children": notes, "hidden": not notes}


def encode_labels(run: RunDetail) -> dict[str, object]:
    """Return the labels of a run by the names of their fields in the API."""
    return {
        "title": run.get("title") or None,
        "tags": sorted(run.get("tags") or []),
        "notes": run.get("notes") or None,
        "archived": bool(run.get("archived")),
    }


def parse_tags(text: str | None) -> list[str]:
    """Return the tags of a text that are separated by commas, sorted, each once."""
    return sorted({tag for part in (text or "").split(",") if (tag := part.strip())})


def find_tag_problem(tags: Sequence[str]) -> str | None:
    """Return what the collector would refuse in these tags, by the tag and not by its number, or None."""
    if len(tags) > MOST_TAGS:
        return f"A run has at most {MOST_TAGS} tags, and these are {len(tags)}: remove some."
    long = next((tag for tag in tags if len(tag) > LONGEST_TAG), None)
    return long and f'A tag has at most {LONGEST_TAG} letters, and "{long[:20]}…" has {len(long)}: shorten it.'


def _fields(run: RunDetail) -> list[Component]:
    return [
        _field(
            "Title",
            dcc.Input(
                id=run_ids.LABEL_TITLE, value=run.get("title") or "", placeholder=run["name"], maxLength=LONGEST_TITLE
            ),
        ),
        _field("Tags, separated by commas", dcc.Input(id=run_ids.LABEL_TAGS, value=", ".join(run.get("tags") or []))),
        _field(
            "Notes", dcc.Textarea(id=run_ids.LABEL_NOTES, value=run.get("notes") or "", rows=4, maxLength=LONGEST_NOTES)
        ),
        html.Div(
            [
                html.Span("Archive", className="unseen control-label"),
                dcc.Checklist(
                    id=run_ids.LABEL_ARCHIVED,
                    options={"archived": "archived: left out of the fleet at first"},
                    value=["archived"] if run.get("archived") else [],
                    className="inline-check",
                ),
            ],
            className="control",
        ),
        html.Div(
            [
                html.Button("Save", id=run_ids.LABEL_SAVE, className="button"),
                html.Button("Delete run", id=run_ids.DELETE, className="quiet"),
                html.Span(id=run_ids.LABEL_STATE, role="status"),
            ],
            className="field-buttons",
        ),
        dcc.ConfirmDialog(
            id=run_ids.DELETE_CONFIRMED,
            message=f"Delete {run['name']} with all its steps, alerts and responses? This cannot be undone.",
        ),
    ]


def _field(label: str, control: Component) -> Component:
    return html.Div([html.Label(label, htmlFor=control.id), control], className="field")
