"""The words of a message, as people read them."""

import pytest

from monitor_server.notifications.messages.body import alert_items, build_body, without_alerts
from monitor_server.notifications.messages.wording import markdown, text

ROW = {
    "id": "a", "run_id": "r", "run": "r", "project": "p", "kind": "death_spiral", "severity": "warning",
    "state": "firing", "phase": "decay", "opened_step": 3, "severity_step": 3, "last_step": 3, "resolved_step": None,
    "opened_at": 0.0, "last_seen": 0.0, "acknowledged_by": None, "change": "opened", "instead_of": None,
    "reopened_from": None,
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


def test_a_message_counts_the_alerts_that_it_does_not_name():
    """One of them is an alert, and not alerts."""
    body = message("it fell")
    for number, words in ((2, "1 more alert is not named here."), (3, "2 more alerts are not named here.")):
        counted = body | {"counts": body["counts"] | {"alerts": number}}
        assert f"\n{words} All {number}, by kind" in text(counted)


def test_a_message_without_its_alerts_counts_rules_without_their_names():
    """Whoever may save a rule chooses its name, which may be what a receiver refuses, or too long for it."""
    body = message("it fell")
    kinds = {f"rule:poison{number}": 2 for number in range(60)} | {"death_spiral": 1}
    counted = without_alerts(body | {"counts": body["counts"] | {"alerts": 121, "kinds": kinds}})
    assert counted["title"] == "[WARNING] 121 alerts in 1 run: rule, death_spiral"
    assert "All 121, by kind: 120 rule, 1 death_spiral" in text(counted)
    assert "poison" not in str(counted)


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


def test_a_message_states_when_the_alert_opened_and_that_it_was_there_before():
    """A message may arrive a day late, and an engineer who went back must read that it is the same failure again."""
    written = text(message("it fell", reopened_from="b", opened_at=1_700_000_000.0))
    assert "death_spiral (warning) opened again" in written
    assert "since step 3. Opened at 2023-11-14 22:13 UTC." in written
    assert "opened again" not in text(message("it fell"))


def test_the_end_of_a_link_has_its_day():
    """A link that lasts a day ends at the hour at which the message was sent."""
    body = message("it fell")
    body["alerts"][0]["links"] = [{"label": "Acknowledge", "url": "http://h/l", "expires_at": 1_700_000_000.0}]
    assert "acts once, until 2023-11-14 22:13 UTC; its page" in text(body)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("trainer_lost", "What to do: check whether the job ran out of memory"),
        ("telemetry_stale", "What to do: check whether the trainer lives"),
        ("monitor_degraded", "What to do: read the traceback in the collector's log"),
        ("plateau", "What to do: look at the evidence"),
    ],
)
def test_every_message_states_what_to_do_first(kind, first):
    """A lost trainer and a run that is not processed have no remedy in the training, and something to be done."""
    assert first in text(message("it is gone", kind=kind))


def test_the_steps_of_a_silence_are_those_around_it():
    """It is found after the last step; the trainer has made 30 steps when the alert is resolved."""
    silence = {"kind": "telemetry_stale", "opened_step": 103, "severity_step": 103, "last_step": 103}
    assert "of project p, after step 103." in text(message("no step", **silence))
    ended = text(message("no step", **silence, state="resolved", resolved_step=133))
    assert "of project p, after step 103; it has reached step 133." in ended


def test_a_run_that_is_given_up_has_reached_no_step():
    """Nothing came from its trainer since the alert opened, so that it did not come back."""
    lost = {"kind": "trainer_lost", "state": "resolved", "opened_step": 4, "severity_step": 4, "resolved_step": 4}
    given_up = text(message("nothing", **lost, last_seen=0.0, opened_at=60.0))
    assert "of project p, after step 4. Opened at 1970-01-01 00:01 UTC. The run has ended (stopped)." in given_up
    assert "it has reached step 4. Opened at" in text(message("nothing", **lost, last_seen=90.0, opened_at=60.0))


def test_a_message_names_the_suspect_and_what_makes_the_numbers_doubtful():
    """A death spiral points at the policy, and at the instrument first while an alert about it fires on the run."""
    written = text(message("it fell"))
    assert "Suspect: policy." in written
    assert "instrument" not in written
    doubted = text(message("it fell", open_instrument_kinds=("sampler_gap", "instrument_gap")))
    assert "Suspect: policy. Check the instrument first, because of instrument_gap, sampler_gap on this run." in doubted
    unknown = text(message("no update", kind="telemetry_stale", open_instrument_kinds=("instrument_gap",)))
    assert "Suspect" not in unknown
    assert "What to do: check whether the trainer lives" in unknown
