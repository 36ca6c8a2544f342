"""The page of an alert, and the form that judges it."""

from typing import Any, Final

ALERT: Final = "alert"
COMMENT: Final = "alert-comment"
COMMENT_SEND: Final = "alert-comment-send"
HISTORY: Final = "alert-history"
LIFE_STATE: Final = "alert-life-state"
SILENCE: Final = "alert-silence"
SILENCE_SEND: Final = "alert-silence-send"
REFRESH: Final = "alert-refresh"
ACKNOWLEDGE: Final = "alert-acknowledge"
ACKNOWLEDGE_STATE: Final = "alert-acknowledge-state"
JUDGED: Final = "judged"
JUDGED_TITLE: Final = "judged-title"  # of the list on the page of a run


# Arguments of type Any are names, or Dash's `ALL`.
def judgement(part: str, alert: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the id of a part of the form that judges an alert: state, right, wrong, step, note or problem."""
    return {"type": f"judgement-{part}", "alert": alert}
