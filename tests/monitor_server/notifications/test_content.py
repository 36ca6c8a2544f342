"""The words of a message, as people read them."""

import pytest

from monitor_server.notifications.messages.content import alert_items, build_body, markdown, text

ROW = {
    "id": "a", "run_id": "r", "run": "r", "project": "p", "kind": "death_spiral", "severity": "warning",
    "state": "firing", "phase": "decay", "opened_step": 3, "severity_step": 3, "last_step": 3, "resolved_step": None,
    "opened_at": 0.0, "acknowledged_by": None, "change": "opened", "instead_of": None,
}  # fmt: skip


def message(summary, **fields):
    """Return the body of a message about one alert."""
    counts = {"alerts": 1, "runs": 1, "changes": {"opened": 1}, "kinds": {"death_spiral": 1}, "projects": {"p": 1}}
    return build_body(
        message_id="m",
        channel="c",
        created_at=0.0,
        severity="warning",
        alerts=alert_items([ROW | {"summary": summary} | fields], public_url="http://h"),
        counts=counts,
        public_url="http://h",
    )


@pytest.mark.parametrize(
    ("summary", "read"),
    [
        ("the entropy falls", "the entropy falls."),
        ("it failed: no room is left.", "it failed: no room is left."),
        ("who is it?", "who is it?"),
        ("long " * 100, "…"),
    ],
)
def test_every_sentence_ends_with_one_mark(summary, read):
    """A summary that ends like a sentence, such as the error of a channel, gets no second full stop."""
    written = text(message(summary))
    (evidence,) = [line for line in written.splitlines() if line.startswith("Evidence:")]
    assert evidence.endswith(read)
    assert ".." not in written
    assert ".;" not in written  # between two remedies
    assert r"\.\." not in markdown(message(summary))


def test_an_alert_that_a_rewind_has_ended_says_so():
    """It ended at a step that the run repeated: below its own step, or at the step at which it became critical."""
    assert "from step 3 to step 9." in text(message("it fell", state="resolved", resolved_step=9))
    assert "since step 3 until the run went back to step 1." in text(
        message("it fell", state="resolved", resolved_step=1)
    )
    raised = {"severity": "critical", "severity_step": 8, "last_step": 9}
    assert "since step 3 until the run went back to step 7." in text(
        message("it fell", state="resolved", resolved_step=7, **raised)
    )
