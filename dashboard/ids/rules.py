"""The rules of the user's own."""

from typing import Any, Final

LIST: Final = "rules-list"
CHOSEN: Final = "rule-chosen"
CONFIRMED: Final = "rule-confirmed"
EDITED: Final = "rule-edited"
FORM_TITLE: Final = "rule-form-title"
NEW: Final = "rule-new"
SAVE: Final = "rule-save"
SEEN: Final = "rules-seen"
STATE: Final = "rule-state"
TRIED: Final = "rule-tried"
TRIED_RUN: Final = "rule-tried-run"
TRY: Final = "rule-try"


# Arguments of type Any are names, or Dash's `ALL`.
def field(name: str) -> str:
    """Return the id of a field of the form of a rule."""
    return f"rule-field-{name.replace('_', '-')}"


def problem(name: str) -> str:
    """Return the id of the place for the problem of a field of the form of a rule."""
    return f"rule-problem-{name.replace('_', '-')}"


def part(name: str) -> str:
    """Return the id of a part of the form that some conditions have."""
    return f"rule-part-{name}"


def button(action: Any, rule: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a button that edits, switches on or off, or deletes a rule."""
    return {"type": "rule-button", "action": action, "rule": rule}
