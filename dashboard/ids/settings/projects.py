"""The settings' projects."""

from typing import Any, Final

LIST: Final = "projects-list"
CHOSEN: Final = "project-chosen"
CONFIRMED: Final = "project-confirmed"
SEEN: Final = "projects-seen"
STATE: Final = "project-state"


# Arguments of type Any are names, or Dash's `ALL`.
def delete(name: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of the button that deletes a project."""
    return {"type": "project-delete", "project": name}
