"""How the rows of a log become steps: those of loops within loops, and of several measurements in one log."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.importers.formats.console.console_log import console_rows
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.steps import MAX_STEP, observe


def read(rows):
    """Return the step and the attempt of each observation, and the notes on the steps."""
    report = ReadReport()
    found = [(step.step, step.attempt) for step in observe(rows, NameMapping().signals, report)]
    return found, report.notes


def ascends(found):
    """Return whether the steps ascend in each attempt, and the attempts."""
    return all(one[1] < other[1] or (one[0] < other[0] and one[1] == other[1]) for one, other in pairwise(found))


@st.composite
def loops(draw):
    """Return rows of a run, as (epoch, step in the epoch, step in the run), and those after a resume.

    Every k-th step is logged, by its number in the run or in its epoch. A row at step 0 may come first.
    """
    interval, is_inner = draw(st.integers(1, 5)), draw(st.booleans())
    lengths = draw(st.lists(st.integers(interval, 4 * interval), min_size=1, max_size=6))
    first, begin = draw(st.sampled_from([0, 1])), draw(st.sampled_from([0, 1]))
    places = [(epoch + begin, step) for epoch, length in enumerate(lengths) for step in range(first, length + first)]
    rows = [
        (epoch, step, whole)
        for whole, (epoch, step) in enumerate(places, first)
        if (step if is_inner else whole) % interval == 0
    ]
    before = [(0, 0, 0)] if first == 1 and draw(st.booleans()) else []
    if len(rows) == 1 or draw(st.booleans()):
        return before + rows, []
    crash = draw(st.integers(2, len(rows)))
    return before + rows[:crash], rows[draw(st.integers(0, crash - 2)) :]


def test_another_column_in_which_the_steps_go_on_is_named():
    """The first column counts the batches of an epoch that has no column."""
    _, notes = read({"step": step % 8, "global_step": step, "reward": 0.5} for step in range(80))
    assert "9 rows have a higher step than the previous row in another column" in notes[-1]


def test_a_summary_without_a_step_is_no_step_of_its_own():
    """Its place in the log was its step, so that the true step was lost or a new attempt."""
    rows = []
    for step in range(200):
        rows += [{"step": step, "reward": 0.5}, {"step": step, "time": 3.2}]
        rows += [{"epoch": step // 20, "reward": 0.25}] * (step % 20 == 19)
    found, (note,) = read(rows)
    assert found == [(step, 1) for step in range(200)]
    assert note.startswith("10 rows have the same step as the previous row but other values, first row 41")


@given(loops())
def test_no_step_of_an_epoch_is_lost_and_a_resume_finds_its_place(loop):
    """A row before the training, epochs of one logged step and a resume at any place are all read."""
    begin, resumed = loop
    logged = begin + resumed
    found, _ = read({"epoch": epoch, "step": step, "reward": 0.5} for epoch, step, _ in logged)
    assert len(found) == len(logged)
    assert ascends(found)
    assert [attempt for _, attempt in found] == [1] * len(begin) + [2] * len(resumed)
    steps = {}
    for (*_, whole), (step, _) in zip(logged, found, strict=True):
        assert steps.setdefault(whole, step) == step


@given(loops())
def test_a_step_that_counts_through_all_epochs_keeps_its_number(loop):
    """Whatever its epochs are, and after a resume."""
    begin, resumed = loop
    logged = begin + resumed
    found, _ = read({"epoch": epoch, "step": whole, "reward": 0.5} for epoch, _, whole in logged)
    assert [step for step, _ in found] == [whole for *_, whole in logged]


@given(st.integers(2, 9), st.lists(st.integers(1, 20), min_size=1, max_size=12), st.booleans())
def test_epochs_that_are_shorter_than_the_logging_interval_lose_no_step(interval, lengths, has_first):
    """The steps of some epochs are not logged at all."""
    places = [(epoch, step) for epoch, length in enumerate(lengths) for step in range(1, length + 1)]
    logged = [(0, 0)] * has_first + places[interval - 1 :: interval]
    found, _ = read({"epoch": epoch, "step": step, "reward": 0.5} for epoch, step in logged)
    assert len(found) == len(logged)
    assert ascends(found)


@pytest.mark.parametrize("trained", [0, 5])
def test_no_row_of_an_evaluation_is_a_step_whatever_follows_it(trained):
    """A log that is followed ends in the middle, and an evaluation before the training may have any number of rows."""
    rows = [{"split": "test", "step": question, "reward": question % 2} for question in range(150)]
    found, (note,) = read(rows + [{"split": "train", "step": step, "reward": 0.5} for step in range(trained)])
    assert found == [(step, 1) for step in range(trained)]
    assert note.startswith("150 rows have the mark of an evaluation")


@pytest.mark.parametrize(
    ("outer", "name"), [("epoch", "step"), ("epoch", "iter"), ("train/epoch", "Step"), ("iteration", "step")]
)
def test_steps_that_begin_again_in_each_epoch_are_counted_on(outer, name):
    """Each epoch would be an attempt, too short for a detector to learn anything in it."""
    found, (note,) = read({outer: epoch, name: i, "reward": 0.5} for epoch in range(20) for i in range(10))
    assert found == [(step, 1) for step in range(200)]
    assert note.startswith("19 rows have no higher step than the previous row but a later epoch, first row 11")


@pytest.mark.parametrize("outer", ["epoch", "iteration"])
def test_the_epochs_within_a_step_are_one_step(outer):
    """PPO trains on the rollouts of each step in several epochs, and the first ones wait for the next step."""
    rows = [{"step": step, outer: epoch, "reward": step / 10} for step in (1, 2, 3, 2, 3, 4) for epoch in range(4)]
    assert read(rows)[0] == [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2)]


def test_a_part_of_a_step_under_a_later_epoch_begins_none():
    """A summary at the end of an epoch may have the number of the next one."""
    rows = [{"epoch": 0, "step": step, "reward": 0.5} for step in range(1, 4)]
    found, notes = read([*rows, {"epoch": 1, "step": 3, "kl": 0.1}, {"epoch": 1, "step": 4, "reward": 0.5}])
    assert (found, notes) == ([(step, 1) for step in range(1, 5)], [])


@pytest.mark.parametrize(
    "line", ["Epoch {}/3 Iter {}/4 | reward 0.5", "Epoch: {} iter={} reward=0.5", "Epoch {} [Step {}/4] reward: 0.5"]
)
def test_the_epoch_in_a_line_of_a_console_log_counts(line):
    """Loops print it before the step."""
    lines = [line.format(epoch, i).encode() for epoch in range(3) for i in range(4)]
    assert read(console_rows(lines))[0] == [(step, 1) for step in range(12)]


@pytest.mark.parametrize("epochs", [(0.5, 1.0, 1.0), (0.5, 1.5, 1.25), (1, 2, 1), (1, 2, 2)])
def test_a_resume_begins_an_attempt_whatever_its_epoch(epochs):
    """A trainer whose steps count through all epochs writes parts of an epoch, and goes back in both."""
    rows = [{"step": step, "epoch": epoch, "reward": 0.5} for step, epoch in zip((50, 100, 91), epochs, strict=True)]
    assert read(rows) == ([(50, 1), (100, 1), (91, 2)], [])


@pytest.mark.parametrize("outer", ["iteration", "epoch", "global_steps"])
@pytest.mark.parametrize("begin", [1, 61])
def test_a_count_of_every_row_is_no_epoch_at_a_resume(outer, begin):
    """The abandoned steps would be a part of the run, and all later steps would be wrong."""
    steps = [*range(1, 101), *range(begin, 121)]
    found, notes = read({outer: count, "step": step, "reward": 0.5} for count, step in enumerate(steps))
    assert found == [(step, 1 if place < 100 else 2) for place, step in enumerate(steps)]
    assert notes == []


def test_an_attempt_in_a_row_has_its_own_steps_whatever_its_epoch():
    """It was logged on purpose."""
    rows = [(attempt, attempt, step) for attempt in (1, 2) for step in range(1, 5)]
    found, _ = read({"attempt": a, "epoch": epoch, "step": step, "reward": 0.5} for a, epoch, step in rows)
    assert found == [(step, attempt) for attempt, _, step in rows]


def test_a_run_that_begins_again_at_an_earlier_epoch_has_its_own_steps():
    """A resume within the epoch goes back in it."""
    epochs = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 1), (1, 0), (0, 0), (0, 1), (1, 0)]
    found, _ = read({"epoch": epoch, "iter": i, "reward": 0.5} for epoch, i in epochs)
    assert found == [(0, 1), (1, 1), (2, 1), (3, 1), (2, 2), (0, 3), (1, 3), (2, 3)]


def test_steps_that_are_counted_on_have_the_bound_of_all_steps():
    """A hostile log would otherwise have steps that no collector takes."""
    steps = [(0, MAX_STEP - 1), (1, MAX_STEP - 2), (1, MAX_STEP - 1), (2, 3), (2, 4)]
    found, _ = read({"epoch": epoch, "step": step, "reward": 0.5} for epoch, step in steps)
    assert {step for step, _ in found} == {MAX_STEP - 1, MAX_STEP}


def test_a_run_that_goes_back_to_its_first_step_again_and_again_is_named():
    """It has no epoch by which its steps could be counted on, and its attempts may be too short for a detector."""
    found, (note,) = read({"iter": i, "reward": 0.5} for _ in range(5) for i in range(20))
    assert found[-1] == (19, 5)
    assert note.startswith("4 rows have a lower step than the previous row, and each begins a new attempt")
