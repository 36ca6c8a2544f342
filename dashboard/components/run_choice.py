"""Draws the choice among all runs of the collector: it offers the first runs that match the typed text."""

from collections.abc import Sequence
from typing import Final

from dash import dcc

from dashboard.collector_client.types.runs import RunItem, shown_name
from dashboard.components.choices import choice_text

__all__ = ["NO_RUN", "SEARCHING", "choice_labels", "run_choice", "run_options", "search_text"]

NO_RUN: Final = "No run matches."
SEARCHING: Final = "Searching the runs…"  # shown until the answer for the typed text arrives

MAX_WORDS: Final = 10  # of a text that the collector looks for
MAX_LETTERS: Final = 200


def run_choice(
    name: str,
    offered: Sequence[RunItem],
    chosen: Sequence[RunItem] = (),
    *,
    is_multiple: bool = False,
    placeholder: str = "type a part of its name",
) -> dcc.Dropdown:
    """Return the control; dashboard/pages/run_choice.py offers other runs while the reader types.

    Args:
        name: The id of the control.
        offered: The runs that it offers at first.
        chosen: The chosen runs.
        is_multiple: Whether several runs can be chosen.
        placeholder: The text of the control while no run is chosen.
    """
    ids = [run["id"] for run in chosen]
    return dcc.Dropdown(
        id=name,
        options=run_options(offered, chosen),
        value=ids if is_multiple else next(iter(ids), None),
        multi=is_multiple,
        placeholder=placeholder,
        labels=choice_labels(NO_RUN),
        search_order="original",
    )


def choice_labels(none_found: str) -> dict[str, str]:
    """Return the control's own texts; ``none_found`` is the text if no run matches the typed text."""
    return {"search": "Find a run by name, project, tag or phase", "no_options_found": none_found}


def run_options(found: Sequence[RunItem], kept: Sequence[RunItem] = (), *, text: str = "") -> list[dict[str, str]]:
    """Return the options of the control: the found runs, and the chosen runs, which must stay among them.

    Args:
        found: The runs that match, in their order.
        kept: The chosen runs; a control forgets a choice that it does not offer.
        text: The search text. The browser shows only options that contain it, and it may match only a tag of a run.
    """
    matching = {run["id"]: _option(run, text) for run in found}
    return [*matching.values(), *(_option(run, "") for run in kept if run["id"] not in matching)]


def search_text(text: object) -> str:
    """Return the search text for the collector: a few words without control characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text or "")[:MAX_LETTERS])
    return " ".join(shown.split()[:MAX_WORDS])


def _option(run: RunItem, text: str) -> dict[str, str]:
    label = choice_text(f"{shown_name(run)} · {run['project']}")
    return {"value": run["id"], "label": label, "search": choice_text(f"{text} {label} {run['name']}")}
