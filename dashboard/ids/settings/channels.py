"""The settings' channels and routes of notifications."""

from typing import Any, Final

CHANNELS: Final = "channels"
DRAWN: Final = "channels-drawn"  # the version that the page shows
FORM: Final = "channel-form"
FORM_TITLE: Final = "channel-form-title"
ROUTE_FORM: Final = "route-form"
ROUTE_FORM_TITLE: Final = "route-form-title"
EDITED: Final = "channel-edited"
NEW: Final = "channel-new"
SAVE: Final = "channel-save"
SAVED: Final = "channel-saved"
DELIVERY_SAVE: Final = "delivery-save"
DELIVERY_SAVED: Final = "delivery-saved"
ROUTE_EDITED: Final = "route-edited"  # the place of the route in the form, and the version in which it stood there
ROUTE_NEW: Final = "route-new"
ROUTE_SAVE: Final = "route-save"
ROUTE_SAVED: Final = "route-saved"
FILE: Final = "channel-file"
FILE_ANSWER: Final = "channel-file-answer"
FILE_CHECK: Final = "channel-file-check"
STATE: Final = "channel-state"


# Arguments of type Any are names, or Dash's `ALL`.
def test(name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that tests a channel."""
    return {"type": "channel-test", "channel": name}


def button(action: Any, name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits or removes a channel."""
    return {"type": "channel-button", "action": action, "channel": name}


def route_button(action: Any, number: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits, moves or removes a route."""
    return {"type": "route-button", "action": action, "route": number}


def version_restore(version: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that puts an earlier version of the channels into force."""
    return {"type": "version-restore", "version": version}
