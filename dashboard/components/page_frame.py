"""Draws the frame around every page, and the message in place of a page that cannot be drawn."""

from textwrap import shorten
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.components.palette import palette
from dashboard.ids import frame as frame_ids

__all__ = ["message", "shell", "waiting"]

LONGEST_DETAIL: Final = 300
LONGEST_NOTE: Final = 300  # letters, the API's limit
LONGEST_WORD: Final = 80  # letters; an id in an address may be longer than a message can show
RETRY_MILLISECONDS: Final = 3000
KEYS: Final = {
    "/": "Find: go to the search field of the page",
    "Ctrl K": "Go to a run or a page by its name",
    "j": "Next run, alert or panel",
    "k": "Previous run, alert or panel",
    "Enter": "Open what is chosen",
    "x": "Select the chosen run of the table, to compare it",
    "+": "Make the chart of the chosen panel taller",
    "-": "Make the chart of the chosen panel lower",
    "g": "All runs",
    "?": "This list",
    "Esc": "Close the list, or leave the search field",
}


def shell(main: Component | None = None) -> Component:
    """Return the frame that pages are drawn into, or the frame around ``main``."""
    return html.Div(
        className="shell",
        children=[
            dcc.Location(id=frame_ids.ADDRESS, refresh="callback-nav"),
            dcc.Store(id=frame_ids.ASKED_ADDRESS),
            html.Header(
                className="bar",
                children=[
                    dcc.Link([html.Span(className="pulse-mark"), "rlvitals"], href="/", className="wordmark"),
                    html.Nav(
                        [
                            dcc.Link("Runs", href="/"),
                            dcc.Link("Compare", href="/compare"),
                            dcc.Link("Rules", href="/rules"),
                            dcc.Link("Settings", href="/settings"),
                        ],
                        className="bar-links",
                        **{"aria-label": "pages"},
                    ),
                    html.Span(id=frame_ids.LIVE_STATE, className="live-state"),
                    html.Button(
                        html.Span("Theme:", className="unseen"),
                        id=frame_ids.THEME,
                        className="theme-choice",
                        title="System, light or dark",
                    ),
                    html.Button("Notify", id=frame_ids.NOTIFY, className="bar-button", hidden=True),
                    html.Button("Follow", id=frame_ids.FOLLOW, className="bar-button", **{"aria-pressed": "false"}),
                    html.Button(
                        "Show",
                        id=frame_ids.SHOW,
                        className="bar-button",
                        title="Show this page to others who have one open",
                    ),
                    html.Button("?", id=frame_ids.KEYS_OPEN, className="bar-button", title="Keyboard (?)"),
                    html.Button(id=frame_ids.SIGN_OUT, className="bar-button sign-out", hidden=True, title="Sign out"),
                    html.A("API", href="/docs", className="bar-link"),
                ],
            ),
            _keyboard_help(),
            palette(),
            _show_dialog(),
            main or html.Main(id=frame_ids.PAGE, children=html.Div(className="loading", children="Loading")),
            _shown_view(),
        ],
    )


def _shown_view() -> Component:
    """Return the place of the message about a view that somebody shows; assets/shown_view.js fills it."""
    return html.Aside(
        id=frame_ids.SHOWN_VIEW,
        className="shown-view",
        children=[
            html.Div(id=frame_ids.SHOWN_VIEW_TEXT, role="status"),
            html.Div(id=frame_ids.SHOWN_VIEW_BUTTONS, className="shown-buttons"),
        ],
        **{"aria-label": "shown by somebody"},
    )


def _show_dialog() -> Component:
    """Return the dialog that shows the page that is open to others; assets/shown_view.js opens it."""
    return html.Dialog(
        id=frame_ids.SHOW_DIALOG,
        className="card keys show-view",
        children=[
            html.H2("Show this page"),
            html.P("Everybody who has the dashboard open, with a key that reaches this page, is asked to look at it."),
            html.Div(
                [
                    html.Label("Note", htmlFor=frame_ids.SHOW_NOTE),
                    dcc.Input(id=frame_ids.SHOW_NOTE, value="", maxLength=LONGEST_NOTE, autoComplete="off"),
                ],
                className="field",
            ),
            html.Div(
                [
                    html.Button("Show", id=frame_ids.SHOW_SEND, className="button"),
                    html.Form(html.Button("Close"), method="dialog"),
                ],
                className="field-buttons",
            ),
            html.P(id=frame_ids.SHOW_STATE, role="status"),
            dcc.Store(id=frame_ids.SHOW_ADDRESS),
        ],
        **{"aria-label": "Show this page"},
    )


def _keyboard_help() -> Component:
    """Return the dialog that lists the keys; assets/keyboard.js opens it."""
    rows = [html.Tr([html.Th(html.Kbd(key), scope="row"), html.Td(meaning)]) for key, meaning in KEYS.items()]
    return html.Dialog(
        id=frame_ids.KEYS,
        className="card keys",
        **{"aria-label": "Keyboard"},
        children=[html.H2("Keyboard"), html.Table(html.Tbody(rows)), html.Form(html.Button("Close"), method="dialog")],
    )


def message(title: str, detail: str) -> Component:
    """Return a message that says why a page cannot be drawn, with a link to try again."""
    return html.Section(
        className="card message",
        role="alert",
        children=[
            html.H1(title),
            html.P(_shorten(detail)),
            html.P([html.A("Try again", href="", className="button"), dcc.Link("All runs", href="/")]),
        ],
    )


def _shorten(detail: str) -> str:
    words = (word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…" for word in detail.split())
    return shorten(" ".join(words), LONGEST_DETAIL, placeholder=" …")


def waiting(title: str, detail: str) -> Component:
    """Return the message in place of a page while the collector does not answer; the page is drawn once it does."""
    return html.Div(
        [
            message(title, detail),
            html.P("The page asks again every few seconds.", className="calm"),
            dcc.Interval(id=frame_ids.RETRY, interval=RETRY_MILLISECONDS),
            dcc.Store(id=frame_ids.RETRY_NOW),
        ],
        id=frame_ids.WAITING,
        className="waiting",
    )
