"""The settings' API keys."""

from typing import Any, Final

LIST: Final = "keys-list"
CHOSEN: Final = "key-chosen"
CONFIRMED: Final = "key-confirmed"
DAYS: Final = "key-days"
MADE: Final = "key-made"
MAKE: Final = "key-make"
MESSAGE: Final = "key-message"
NAME: Final = "key-name"
SEEN: Final = "keys-seen"
PROJECT: Final = "key-project"
SCOPE: Final = "key-scope"


# Arguments of type Any are names, or Dash's `ALL`.
def revoke(key: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that revokes a key."""
    return {"type": "key-revoke", "key": key}
