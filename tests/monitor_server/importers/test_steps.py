"""How the rows of a log become steps: those of loops within loops, and of several measurements in one log."""

import pytest

from monitor_server.importers.formats.console.console_log import console_rows
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.steps import MAX_STEP, observe


def read(rows):
    """Return the step and the attempt of each observation, and the notes on the steps."""
    report = ReadReport()
    found = [(step.step, step.attempt) for step in observe(rows, NameMapping().signals, report)]
    return found, report.notes


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
    assert note.startswith("19 rows have a lower step than the previous row and a later epoch, first row 11")


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
    assert len(notes) == (outer == "epoch")


def test_steps_that_go_back_in_a_later_epoch_without_being_counted_on_are_named():
    """After a row at epoch 0 the epochs are not recognised, and in attempts of one epoch a collapse is not found."""
    rows = [(0, 0), *((epoch, step) for epoch in range(1, 4) for step in range(1, 21))]
    found, (note,) = read({"epoch": epoch, "step": step, "reward": 0.5} for epoch, step in rows)
    assert found[-1] == (20, 3)
    assert note.startswith("2 rows have a lower step than the previous row, and each begins a new attempt")


def test_a_resume_in_a_later_epoch_begins_an_attempt():
    """The epochs' steps begin at the lowest step, and a checkpoint is taken between them."""
    rows = [(1, step) for step in range(1, 100)] + [(2, step) for step in range(90, 200)]
    found, _ = read({"epoch": epoch, "step": step, "reward": 0.5} for epoch, step in rows)
    assert found[98:100] == [(99, 1), (90, 2)]
    assert found[-1] == (199, 2)


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
