"""One rule on one run, step by step, by hand-worked sequences."""

import math

import msgspec
import pytest

from monitor_server.rules.definition import read_rule
from monitor_server.rules.findings import finding_of
from monitor_server.rules.state_machine import SAMPLES, Machine, MachineState

NONE = None
NAN, INF = math.nan, math.inf


def machine(**fields):
    document = {"name": "r", "signal": "s"} | fields
    if document["condition"] != "absence":
        document = {"operator": ">", "value": 1.0} | document
    return Machine(read_rule(document), MachineState("id", 1))


def fired(built, values, *, attempt=1, first=1, seconds=10.0, others=()):
    """Return whether the alert fires after each step of consecutive steps; steps are some seconds apart."""
    found = []
    for place, value in enumerate(values):
        step = first + place
        other = others[place] if others else None
        built.update(attempt=attempt, step=step, time=step * seconds, now=step * seconds, value=value, other=other)
        found.append(built.state.is_firing)
    return found


def states(text):
    return [letter == "F" for letter in text]


def test_a_threshold_fires_where_it_holds_and_resolves_where_it_does_not():
    """Both at the very step."""
    assert fired(machine(condition="threshold"), [0.0, 2.0, 2.0, 1.0]) == states("-FF-")


@pytest.mark.parametrize(
    ("operator", "expected"), [(">", "--F"), (">=", "-FF"), ("<", "F--"), ("<=", "FF-"), ("==", "-F-"), ("!=", "F-F")]
)
def test_operators(operator, expected):
    """Against 1.0, with 0, 1 and 2."""
    assert fired(machine(condition="threshold", operator=operator), [0.0, 1.0, 2.0]) == states(expected)


def test_a_duration_in_steps():
    """The duration is 2 steps: it holds at step 2, so it fires at step 4; step 5 interrupts it."""
    built = machine(condition="threshold", for_steps=2)
    assert fired(built, [0.0, 2.0, 2.0, 2.0, 0.0, 2.0, 2.0, 2.0]) == states("---F---F")


def test_a_duration_in_seconds():
    """The duration is 25 s at 10 s a step: it holds at 10 s, and fires at 40 s."""
    assert fired(machine(condition="threshold", for_seconds=25.0), [2.0] * 5) == states("---FF")


def test_a_step_without_the_signal_changes_nothing():
    """It begins no duration, ends none, opens no alert and resolves none; the state shows that there is no data."""
    built = machine(condition="threshold", for_steps=3)
    assert fired(built, [NONE, 2.0, NONE, NONE, 2.0, NONE, 0.0, NONE]) == states("----FF--")
    assert not built.state.has_data
    assert (built.state.observed.step, built.state.observed.value) == (7, 0.0)


def test_nan_is_neither_above_nor_below():
    """It opens nothing and resolves nothing, and interrupts a duration; infinities are ordered."""
    for operator in (">", ">=", "<", "<=", "==", "!="):
        assert fired(machine(condition="threshold", operator=operator), [NAN, NAN]) == states("--")
    assert fired(machine(condition="threshold"), [2.0, NAN, INF, -INF]) == states("FFF-")
    assert fired(machine(condition="threshold", for_steps=2), [2.0, 2.0, NAN, 2.0, 2.0, 2.0]) == states("-----F")


def test_not_finite_finds_nan_and_both_infinities():
    """It ends with a finite number."""
    built = machine(condition="threshold", operator="not_finite", value=None)
    assert fired(built, [0.0, NAN, INF, -INF, 1.0, NONE]) == states("-FFF--")


def test_a_change_is_measured_against_the_value_some_steps_before():
    """The change is by 2 steps and above 1.0: 5 - 4 is not above, 6.5 - 5 = 1.5 is."""
    built = machine(condition="change", before_steps=2)
    assert fired(built, [4.0, 4.5, 5.0, 6.0, 6.5, 6.5, 6.5]) == states("---FF--")
    # Step 4: 6 - 4.5 = 1.5; step 5: 6.5 - 5 = 1.5; step 6: 6.5 - 6 = 0.5.


@pytest.mark.parametrize(
    ("measure", "value", "measured"),
    [("difference", 3.0, 1.0), ("relative", 3.0, 0.5), ("ratio", 3.0, 1.5), ("relative", -2.0, -2.0)],
)
def test_measures(measure, value, measured):
    """Against 2.0."""
    built = machine(condition="change", before_steps=1, measure=measure)
    fired(built, [2.0, value])
    assert built.state.measured == measured


@pytest.mark.parametrize(
    ("measure", "values", "measured"),
    [
        ("ratio", [0.0, 3.0], INF),
        ("ratio", [-0.0, 3.0], -INF),
        ("relative", [0.0, -3.0], -INF),
        ("ratio", [0.0, 0.0], NAN),
        ("relative", [0.0, 0.0], NAN),
        ("ratio", [0.0, NAN], NAN),
        ("difference", [INF, INF], NAN),
        ("relative", [5e-324, 1e308], INF),
    ],
)
def test_what_is_divided_by_zero_is_a_number(measure, values, measured):
    """The result follows IEEE 754; nothing is raised."""
    built = machine(condition="change", before_steps=1, measure=measure)
    fired(built, values)
    assert built.state.measured == pytest.approx(measured, nan_ok=True)


def test_a_change_over_time():
    """The change is over 30 s at 10 s a step."""
    built = machine(condition="change", before_seconds=30.0)
    assert fired(built, [0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0]) == states("---FFF-")


@pytest.mark.parametrize("distance", [{"before_steps": 2}, {"before_seconds": 20.0}, {"before_steps": 100}])
def test_a_change_is_not_measured_against_a_value_that_is_nan(distance):
    """It is undecided at the step of the NaN alone; later steps are compared with the number before it."""
    built, undecided = machine(condition="change", for_steps=150, **distance), []
    for step in range(400):
        fired(built, [NAN if step == 105 else 2.0 * step], first=step)
        if built.state.measured is not None and math.isnan(built.state.measured):
            undecided.append(step)
    assert undecided == [105]
    assert built.state.is_firing


@pytest.mark.parametrize("before", [1, 7, SAMPLES, 100, 1_000])
def test_the_earlier_values_that_are_kept_are_few(before):
    """They are exact up to 32 steps, and at most a 32nd older beyond."""
    built = machine(condition="change", before_steps=before)
    for step in range(1, 5_000):
        built.update(attempt=1, step=step, time=step, now=step, value=float(step))
        assert len(built.state.samples) <= SAMPLES + 2
        if step > before + before // SAMPLES + 1:
            distance = step - built.state.reference.step
            assert before <= distance <= (before if before <= SAMPLES else before * (1 + 1 / SAMPLES) + 1)


def test_absence_in_steps():
    """The absence is 2 steps: last recorded at step 1, it fires at step 3."""
    built = machine(condition="absence", for_steps=2)
    assert fired(built, [1.0, NONE, NONE, NONE, NAN, NONE]) == states("--FF--")


def test_a_signal_that_was_never_recorded_is_absent_since_the_first_step():
    """The rule does not pass silently."""
    assert fired(machine(condition="absence", for_steps=2), [NONE, NONE, NONE]) == states("--F")


def test_absence_by_the_clock_between_two_steps():
    """The deadline counts from the last record of the signal; a tick before it does nothing."""
    built = machine(condition="absence", for_seconds=25.0)
    fired(built, [1.0, NONE])
    assert built.due_at() == 35.0
    assert not built.tick(34.9)
    assert built.tick(35.0)
    assert built.due_at() is None
    assert fired(built, [NONE, 1.0], first=3) == states("F-")
    assert built.due_at() == 65.0


@pytest.mark.parametrize(
    "fields",
    [
        {"condition": "threshold", "for_seconds": 25.0},
        {"condition": "change", "before_seconds": 20.0, "value": -1.0},
        {"condition": "absence", "for_seconds": 25.0},
    ],
)
def test_a_trainer_whose_clock_was_days_ahead_delays_no_rule(fields):
    """From the step at which the clock is right, all seconds are counted as if the earlier steps were of that time."""
    built = machine(**fields)
    for step, (time, value) in enumerate([(1e6, 2.0), (1e6 + 10, NONE), (10.0, NONE)]):
        built.update(attempt=1, step=step, time=time, now=0.0, value=value)
    values = [NONE if fields["condition"] == "absence" else 2.0] * 5
    for step, value in enumerate(values):
        built.update(attempt=1, step=10 + step, time=20.0 + 10.0 * step, now=0.0, value=value)
    assert built.state.is_firing


def test_a_collector_whose_clock_was_days_ahead_counts_from_the_first_earlier_reading():
    """Else an absence would be noticed days later; what a slow clock reads does not end it either."""
    built = machine(condition="absence", for_seconds=25.0)
    built.update(attempt=1, step=1, time=0.0, now=1e6, value=1.0)
    built.update(attempt=1, step=2, time=1.0, now=10.0, value=NONE)
    assert built.due_at() == 35.0
    assert not built.tick(10.0)
    assert not built.tick(20.0)
    assert built.tick(35.0)


def test_absence_by_time_counts_anew_for_a_run_that_goes_on_after_its_end():
    """The time between is no absence: the clock is read first when the run goes on."""
    built = machine(condition="absence", for_seconds=25.0)
    fired(built, [1.0])
    built.end_run()
    assert built.due_at() is None
    assert not built.tick(1e6)
    assert built.due_at() == 1e6 + 25.0


def test_the_end_of_a_run_ends_absence_by_time():
    """Nothing more will be recorded; absence in steps stays as it was found."""
    by_time, by_steps = machine(condition="absence", for_seconds=5.0), machine(condition="absence", for_steps=1)
    for built in (by_time, by_steps):
        fired(built, [1.0, NONE])
    assert (by_time.end_run(), by_steps.end_run()) == (True, False)
    assert (by_time.state.is_firing, by_steps.state.is_firing) == (False, True)


def test_a_comparison_needs_both_values():
    """A step that the other run has not made is no data."""
    built = machine(condition="comparison", other_run_id="b", project="p", value=0.5)
    assert fired(built, [2.0, 2.0, NONE, 2.0], others=[1.0, NONE, 1.0, 2.0]) == states("FFF-")


def test_an_attempt_begins_every_duration_anew():
    """An alert that fires stays until the condition is known not to hold, where the attempt makes no step again."""
    built = machine(condition="threshold", for_steps=2)
    assert fired(built, [2.0, 2.0, 2.0]) == states("--F")
    assert fired(built, [NONE, 2.0, 0.0, 2.0], attempt=2, first=4) == states("FF--")
    pending = machine(condition="threshold", for_steps=2)
    fired(pending, [2.0, 2.0])
    assert fired(pending, [2.0, 2.0, 2.0], attempt=2, first=3) == states("--F")


@pytest.mark.parametrize(
    ("fields", "values", "first", "expected"),
    [
        ({"condition": "threshold", "for_steps": 2}, [0.0, 2.0, 2.0, 2.0, 2.0], 4, "--"),
        ({"condition": "threshold", "for_steps": 2}, [0.0, 2.0, 2.0, 2.0, 2.0], 5, "FF"),
        ({"condition": "change", "before_steps": 2}, [0.0, 0.0, 0.0, 50.0, 50.0], 4, "--"),
        ({"condition": "absence", "for_steps": 2}, [2.0, NONE, NONE, NONE], 3, "--"),
        ({"condition": "absence", "for_seconds": 15.0}, [2.0, NONE, NONE, NONE], 3, "--"),
    ],
)
def test_an_alert_that_began_at_steps_that_are_made_again_is_taken_back(fields, values, first, expected):
    """It fires on if it began before them; steps without the signal show neither."""
    built = machine(**fields)
    assert fired(built, values)[-1]
    assert fired(built, [NONE, NONE], attempt=2, first=first) == states(expected)


def test_a_change_is_compared_with_no_value_of_steps_that_are_made_again():
    """Step 1 is no longer kept when the run goes back to step 3, so that step 3 has no data."""
    change = machine(condition="change", before_steps=2)
    assert fired(change, [0.0, 0.0, 50.0, 50.0]) == states("--FF")
    assert fired(change, [0.0, 0.0, 0.0], attempt=2, first=3) == states("---")
    assert (change.state.reference.step, change.state.reference.value) == (3, 0.0)


@pytest.mark.parametrize(
    ("seen", "first", "known"),
    [
        ([], 5000, "not from step 5000 on"),  # the run is older than the rule
        ([1.0, NONE], 2, "not since step 1"),
        ([NONE, 1.0], 2, "not from step 2 on"),  # the value is that of a step that is made again
    ],
)
def test_an_absence_names_the_step_since_which_the_rule_knows_of_no_value(seen, first, known):
    """It knows neither the steps before it was made nor those that the run has taken back."""
    built = machine(condition="absence", for_steps=1)
    fired(built, seen)
    assert fired(built, [NONE, NONE], attempt=2, first=first) == states("-F")
    assert finding_of(built.rule, built.state).summary == f"s is not recorded for 1 steps ({known})"


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        (0.3, 0.30000004, "s > 0.3 (0.30000004 since step 1)"),
        (1e9, 1000000512.0, "s > 1000000000 (1000000512 since step 1)"),
        (0.3, 2 / 3, "s > 0.3 (0.666667 since step 1)"),
        (0.3, math.inf, "s > 0.3 (inf since step 1)"),
    ],
)
def test_the_number_of_a_finding_does_not_contradict_its_condition(limit, value, said):
    """Six digits of 0.30000004 would be 0.3, which is not above 0.3."""
    built = machine(condition="threshold", operator=">", value=limit)
    fired(built, [value])
    assert finding_of(built.rule, built.state).summary == said


def test_what_the_clock_has_found_is_taken_back_with_the_step_before():
    """The trainer was silent after step 2, and goes back to it."""
    built = machine(condition="absence", for_seconds=15.0)
    fired(built, [2.0, NONE])
    assert built.tick(now=100.0)
    assert fired(built, [NONE], attempt=2, first=2) == states("-")


def test_the_state_survives_msgpack_at_every_step():
    """This includes NaN and infinities: a state restored from bytes fires where an uninterrupted one does."""
    values = [0.0, 2.0, NONE, NAN, INF, 2.0, -INF, 3.0, 3.0, NONE, 9.0]
    for fields in (
        {"condition": "threshold", "for_steps": 2},
        {"condition": "change", "before_steps": 2},
        {"condition": "absence", "for_seconds": 10.0},
    ):
        whole = fired(machine(**fields), values)
        built, found = machine(**fields), []
        for place, value in enumerate(values):
            found += fired(built, [value], first=1 + place)
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(built.state), type=MachineState)
            built = Machine(built.rule, state)
        assert found == whole
