"""The callbacks of the form of a channel: which fields a kind has, and saving."""

from typing import Any

from dash import Dash, Input, Output, State, no_update

from dashboard.collector_client.errors import ApiError, describe_failure
from dashboard.collector_client.types.administration import NotificationSettings
from dashboard.components.settings.channel_form_values import (
    CHANNEL_FIELDS,
    fields_of_kind,
    problems_by_field,
    with_channel,
)
from dashboard.ids.settings import channels as channel_ids
from dashboard.ids.settings import forms as form_ids
from dashboard.pages.settings.saved_channels import SHOWN, problems_of, save_change, values_of

__all__ = ["register"]


def register(app: Dash, api_url: str) -> None:
    """Register the callbacks."""

    async def save_channel(clicks: int | None, version: int, edited: object, *values: object) -> tuple[object, ...]:
        fields = dict(zip(CHANNEL_FIELDS, values, strict=True))
        fields["name"] = name = str(fields["name"] or "").strip()
        if not clicks or not isinstance(edited, str | None):
            return (no_update,) * (4 + 2 + len(fields) + len(SHOWN))

        def change(settings: NotificationSettings) -> dict[str, Any]:
            if not name:
                raise ApiError("channels. must have a name, such as team")
            # If a newer version is not drawn yet, the collector refuses the change, and its answer names the author.
            is_drawn = settings["version"] == version
            if is_drawn and edited is not None and edited not in settings["channels"]:
                raise ApiError(f"channels.{name} is not there any more: press Empty the form to add it as a new one")
            if edited != name and name in settings["channels"]:
                raise ApiError(f"channels.{name} is there already: press Edit beside it to change it")
            return with_channel(settings, fields)

        problem, _, shown = await save_change(api_url, version, change)
        if problem is None:
            message = f"Saved. Send a test to {name} to see that its messages arrive."
            return (
                message,
                name,
                "",
                "",
                *shown,
                *[""] * len(fields),
                f"Change the channel {name}",
                True,
            )
        found, other = problems_by_field(str(problem), fields)
        return (
            describe_failure("Not saved.", problem, other),
            *[no_update] * 3,
            *shown,
            *found.values(),
            no_update,
            no_update,
        )

    def show_parts(kind: str) -> list[bool]:
        return [not is_shown for is_shown in fields_of_kind(kind).values()]

    version = State(channel_ids.DRAWN, "data")
    kept = [
        Output(channel_ids.EDITED, "data"),
        *(Output(form_ids.field("channel", name), "value") for name in ("url", "secret")),
    ]
    title = [
        Output(channel_ids.FORM_TITLE, "children"),
        Output(form_ids.field("channel", "name"), "disabled"),
    ]
    app.callback(
        Output(channel_ids.SAVED, "children"), *kept, *SHOWN, *problems_of("channel", CHANNEL_FIELDS), *title,
        Input(channel_ids.SAVE, "n_clicks"), version, State(channel_ids.EDITED, "data"),
        *values_of("channel", CHANNEL_FIELDS), prevent_initial_call=True,
    )(save_channel)  # fmt: skip
    parts = [Output(form_ids.part("channel", name), "hidden") for name in fields_of_kind(None)]
    app.callback(*parts, Input(form_ids.field("channel", "type"), "value"))(show_parts)
