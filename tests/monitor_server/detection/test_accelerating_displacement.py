"""Definition 5.1 in blocks: how long held-out correct responses have become less likely, and faster."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from monitor_server.detection.detector_parts.accelerating_displacement import BLOCK_ROWS, AcceleratingDisplacement
from trainer_hooks.reference.experiments.measures import accelerating_stretch
from trainer_hooks.reference.experiments.run_recording import read

RUNS = Path(__file__).parents[3] / "docs/experiments/runs-spiral"


def after(blocks):
    """The count after blocks of a constant displacement."""
    displacement = AcceleratingDisplacement()
    for value in blocks:
        for _ in range(BLOCK_ROWS):
            displacement.update(value)
    return displacement


def test_a_falling_displacement_counts_its_blocks_and_a_rise_begins_anew():
    assert after([-0.25, -0.5, -0.75]).blocks == 3
    assert after([-0.25, -0.5, -0.375]).blocks == 1
    assert after([-0.25, -0.5, 0.125]).blocks == 0
    assert after([0.5, 0.25, -0.25]).blocks == 1


def test_a_block_that_is_not_complete_has_no_rate():
    displacement = AcceleratingDisplacement()
    for _ in range(BLOCK_ROWS - 1):
        displacement.update(-1.0)
    assert displacement.newest is None
    displacement.update(-1.0)
    assert displacement.newest == -1.0


def test_before_a_collapse_it_counts_the_stretch_of_the_tables():
    """A recorded run of the regime `spiral`: at the last step of its longest stretch, all of its blocks are counted."""
    rows = read(RUNS / "grpo-seed1.jsonl.gz")
    stretch = accelerating_stretch(rows)
    displacement = AcceleratingDisplacement()
    for row in rows[: stretch.last_step]:
        displacement.update(row["displacement/cross"])
    assert displacement.blocks == (stretch.last_step - stretch.first_step + 1) / BLOCK_ROWS == 4
    assert displacement.newest == stretch.last


@given(st.lists(st.floats(-1.0, 1.0), max_size=80), st.integers(0, 80))
def test_a_restored_count_goes_on_as_the_uninterrupted_one(values, at):
    whole, saved = AcceleratingDisplacement(), AcceleratingDisplacement()
    for value in values:
        whole.update(value)
    for value in values[:at]:
        saved.update(value)
    restored = AcceleratingDisplacement.from_state(saved.state())
    for value in values[at:]:
        restored.update(value)
    assert restored.state() == whole.state()


def test_a_rewind_discards_the_blocks():
    displacement = after([-0.25, -0.5])
    displacement.take_back(3, 17)
    assert displacement.state() == AcceleratingDisplacement().state()
