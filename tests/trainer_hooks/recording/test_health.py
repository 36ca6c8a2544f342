"""The run's health as last reported by the collector, without threads and without HTTP."""

import pytest

from trainer_hooks.delivery import DropCounter
from trainer_hooks.recording.health import MAX_ALERTS, MAX_REQUESTS, RunHealth
from trainer_hooks.settings import REWINDS_PER_RESTART
from trainer_hooks.wire import ActionRequest, AlertNotice, Receipt

ATTEMPT = 7


def alert(name="a", severity="warning"):
    """Return an alert."""
    return AlertNotice(id=name, kind="likelihood_drift", severity=severity, opened_step=3, summary="falling")


def receipt(**fields):
    """Return a receipt for one record."""
    return Receipt(run_id="r", accepted=1, **fields)


def health(*listeners):
    """Return the health of a process that has reached step 5."""
    made = RunHealth(ATTEMPT, DropCounter(), listeners)
    made.advance(ATTEMPT, 5)
    return made


def test_nothing_is_known_before_the_first_receipt():
    """Before the first receipt the phase is unknown, which is not healthy."""
    made = health()
    assert (made.phase, made.healthy_step) == ("unknown", None)


@pytest.mark.parametrize(
    ("phase", "healthy_step"),
    [
        ("warmup", 5),
        ("healthy", 5),
        ("stagnation", 5),
        ("decay", None),
        ("acceleration", None),
        ("collapsed", None),
        ("unknown", None),
        ("of a newer collector", None),
    ],
)
def test_the_healthy_step_follows_healthy_phases_only(phase, healthy_step):
    """Stagnation counts as healthy, and neither the unknown phase does nor one that this SDK does not know."""
    made = health()
    made.update(receipt(phase=phase, judged_step=5), ATTEMPT)
    assert (made.phase, made.healthy_step) == (phase, healthy_step)


def test_a_receipt_without_a_step_sets_the_phase_only():
    """A receipt of an older collector, which does not name the step of its phase, sets only the phase."""
    made = health()
    made.update(receipt(phase="healthy"), ATTEMPT)
    assert (made.phase, made.healthy_step) == ("healthy", None)


def test_a_receipt_for_another_attempt_is_ignored():
    """A receipt for another attempt is ignored: it answers a batch that a dead process has left in the spool."""
    notified = []
    made = health(notified.append)
    made.update(receipt(phase="collapsed", judged_step=5, alerts=[alert()]), ATTEMPT - 1)
    assert (made.phase, notified) == ("unknown", [])


def test_a_step_that_this_process_has_not_reached_is_another_processs():
    """Receipts count from step 10 on where detection had processed step 9 of an earlier process."""
    notified = []
    made = health(notified.append)
    made.update(receipt(phase="collapsed", judged_step=9, alerts=[alert()]), ATTEMPT)
    made.advance(ATTEMPT, 9)
    made.update(receipt(phase="collapsed", judged_step=9, alerts=[alert()]), ATTEMPT)
    assert (made.phase, notified) == ("unknown", [])
    made.advance(ATTEMPT, 10)
    made.update(receipt(phase="decay", judged_step=10, alerts=[alert()]), ATTEMPT)
    assert (made.phase, notified) == ("decay", [alert()])


def test_a_receipt_before_the_first_step_is_another_processs():
    """A receipt does not change the health of a process that has logged no step."""
    made = RunHealth(ATTEMPT, DropCounter())
    made.update(receipt(phase="collapsed", judged_step=0), ATTEMPT)
    assert made.phase == "unknown"


def test_a_new_attempt_resets_the_phase_the_healthy_step_and_the_alerts():
    """After a rewind the old findings are dropped, and the new attempt is judged from its first step."""
    made = health()
    made.update(receipt(phase="healthy", judged_step=5, alerts=[alert("a")]), ATTEMPT)
    assert len(made.alerts) == 1
    made.advance(ATTEMPT + 1, 2)
    assert (made.phase, made.healthy_step, made.alerts) == ("unknown", None, ())
    made.update(receipt(phase="healthy", judged_step=5), ATTEMPT)
    assert made.phase == "unknown"
    made.update(receipt(phase="decay", judged_step=2), ATTEMPT + 1)
    assert made.phase == "decay"


def test_an_alert_is_notified_once_for_each_severity():
    """An alert is notified once for each severity, although the collector repeats it with every receipt."""
    notified = []
    made = health(notified.append)
    alerts = [alert(), alert(), alert(severity="critical"), alert("b")]
    for _ in range(2):
        made.update(receipt(phase="decay", judged_step=5, alerts=alerts), ATTEMPT)
    assert notified == [alert(), alert(severity="critical"), alert("b")]


def test_an_alert_reaches_the_user_however_many_came_before():
    """A rule that flaps for a day hides no critical alert, and what a receipt repeats is not told again."""
    notified = []
    made = health(notified.append)
    lasting = alert("lasting", "critical")
    flapping = [alert(str(number)) for number in range(2 * MAX_ALERTS)]
    for each in flapping:
        made.update(receipt(phase="decay", judged_step=5, alerts=[lasting, each]), ATTEMPT)
    made.update(receipt(phase="collapsed", judged_step=5, alerts=[lasting, alert("last", "critical")]), ATTEMPT)
    assert notified == [lasting, *flapping, alert("last", "critical")]


def test_a_request_is_handed_on_however_many_came_before():
    """A script may ask for a checkpoint each hour, for weeks; a request that is repeated is handed on once."""
    requested = []
    made = RunHealth(ATTEMPT, DropCounter(), on_request=requested.append)
    made.advance(ATTEMPT, 5)
    requests = [ActionRequest(id=f"q{n}", action="stop", by="anna", alert=alert()) for n in range(2 * MAX_REQUESTS)]
    for each in requests:
        for _ in range(2):
            made.update(receipt(judged_step=5, requests=[each]), ATTEMPT)
    assert requested == requests


def test_a_collector_that_sends_alerts_without_end_takes_bounded_memory(caplog):
    """Of a receipt a thousand alerts and a hundred requests are taken, as many are remembered, and the log says so."""
    notified, requested = [], []
    made = RunHealth(ATTEMPT, DropCounter(), [notified.append], on_request=requested.append)
    made.advance(ATTEMPT, 5)
    for place in range(3):
        alerts = [alert(f"{place}-{number}") for number in range(MAX_ALERTS + 1)]
        requests = [
            ActionRequest(id=each.id, action="stop", by="anna", alert=each) for each in alerts[: MAX_REQUESTS + 1]
        ]
        for _ in range(2):
            made.update(receipt(judged_step=5, alerts=alerts, passed=alerts[-1:], requests=requests), ATTEMPT)
    assert (len(notified), len(requested)) == (3 * MAX_ALERTS, 3 * MAX_REQUESTS)
    assert caplog.text.count(f"only the first {MAX_ALERTS} of {MAX_ALERTS + 1} firing alerts are taken") == 1
    made.update(receipt(judged_step=5, alerts=[alert("0-0")]), ATTEMPT)
    assert notified[-1].id == "0-0"


def test_a_listener_that_raises_does_not_keep_the_others_from_the_alert():
    """An error of one listener is counted as an internal error, and the other listeners receive the alert.

    A coroutine that one returns is an error too, because nothing awaits it.
    """

    def fail(_notice):
        raise RuntimeError("the user's mistake")

    async def page(_notice):
        """Do nothing."""

    notified = []
    drops = DropCounter()
    made = RunHealth(ATTEMPT, drops, [fail, page, notified.append])
    made.update(receipt(phase="decay", alerts=[alert()]), ATTEMPT)
    assert notified == [alert()]
    assert drops["internal_errors"] == 2


@pytest.mark.parametrize(("newest", "warnings"), [(ATTEMPT + 1, 1), (ATTEMPT, 0), (None, 0)])
def test_a_launch_that_no_detector_processes_is_warned_of(newest, warnings, caplog):
    """The first receipt says it, whatever the distance; later another rank may have rewound before this one."""
    made = RunHealth(ATTEMPT, DropCounter(), world_size=2)
    made.update(receipt(newest_attempt=newest), ATTEMPT)
    made.update(receipt(newest_attempt=ATTEMPT + 9), ATTEMPT)
    assert caplog.text.count("NO DETECTOR SEES THIS LAUNCH") == warnings


@pytest.mark.parametrize(
    ("launch", "answers", "warnings"),
    [
        ({}, [receipt(newest_attempt=ATTEMPT + 1)] * 2, 1),
        ({}, [Receipt(run_id="r", accepted=0, newest_attempt=ATTEMPT + 1)], 0),
        ({"world_size": 2}, [receipt(newest_attempt=ATTEMPT + REWINDS_PER_RESTART)] * 2, 1),
        ({"world_size": 2}, [receipt(newest_attempt=ATTEMPT + REWINDS_PER_RESTART - 1)], 0),
        ({"world_size": 2, "rank": 1}, [receipt(newest_attempt=ATTEMPT + REWINDS_PER_RESTART)], 0),
    ],
    ids=["alone", "left open", "two ranks", "the other rank has rewound", "another rank says it"],
)
def test_a_launch_that_a_later_one_has_overtaken_is_warned_of_once(launch, answers, warnings, caplog):
    """The later launch begins after the first receipt of this one, whose steps no detector sees from then on."""
    made = RunHealth(ATTEMPT, DropCounter(), **launch)
    for each in [receipt(), *answers]:
        made.update(each, ATTEMPT)
    assert caplog.text.count("NO DETECTOR SEES THIS LAUNCH ANY MORE") == caplog.text.count("NO DETECTOR") == warnings


def told_of(first_step=5, **options):
    """Return the health of a process that has logged one step, and the alerts that its two listeners received."""
    fired, passed = [], []
    made = RunHealth(ATTEMPT, DropCounter(), [fired.append], on_passed=[passed.append], **options)
    made.advance(ATTEMPT, first_step)
    return made, fired, passed


def test_an_alert_that_has_passed_is_told_once_and_does_not_fire():
    """Receipts repeat it for a while; an alert that was reported while it fired is not reported again."""
    made, fired, passed = told_of(first_step=1)
    made.update(receipt(judged_step=1, phase="healthy", alerts=[alert("a")]), ATTEMPT)
    made.advance(ATTEMPT, 9)
    for _ in range(3):
        made.update(receipt(judged_step=9, phase="healthy", passed=[alert("a"), alert("b")]), ATTEMPT)
    assert [each.id for each in fired] == ["a"]
    assert [each.id for each in passed] == ["b"]
    assert made.alerts == ()


def test_an_alert_of_an_earlier_process_has_not_passed_here():
    """It opened before the first step of this one, or at a step that was judged before it."""
    made, _, passed = told_of(first_step=4)
    made.update(receipt(judged_step=4, phase="healthy", passed=[alert("before")]), ATTEMPT)
    again, _, of_again = told_of(first_step=2)
    again.update(receipt(judged_step=3, phase="healthy", passed=[alert("judged")]), ATTEMPT)
    again.advance(ATTEMPT, 9)
    again.update(receipt(judged_step=9, phase="healthy", passed=[alert("judged")]), ATTEMPT)
    assert (passed, of_again) == ([], [])


def test_an_attempt_that_goes_back_is_told_of_its_own_steps_from_the_first():
    """An earlier process had more steps judged in the attempt before: that number says nothing about this one."""
    made, fired, _ = told_of()
    made.update(receipt(judged_step=9, alerts=[alert("before")]), ATTEMPT)
    made.advance(ATTEMPT + 1, 1)
    made.update(receipt(judged_step=1, alerts=[alert("here")]), ATTEMPT + 1)
    assert [each.id for each in fired] == ["here"]
