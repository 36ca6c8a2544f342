"""The table of an alert's stages, cell by cell."""

import pytest

from monitor_server.alerts.changes.stages import NEXT_STAGE, Change, Stage, advance, is_taken_back, next_stage
from monitor_server.store.repositories.alerts import Alert

# `active` stands for silenced, acknowledged or firing, whichever the silence and the acknowledgement say.
TABLE = """
                pending       firing        no_data       acknowledged  silenced      resolved
held            active        firing        no_data       acknowledged  silenced      resolved
raised          active        firing        active        active        silenced      resolved
data_lost       pending       no_data       no_data       acknowledged  silenced      resolved
data_returned   pending       firing        active        acknowledged  silenced      resolved
acknowledged    pending       acknowledged  acknowledged  acknowledged  silenced      resolved
silenced        pending       silenced      silenced      silenced      silenced      resolved
silence_ended   pending       firing        no_data       acknowledged  active        resolved
commented       pending       firing        no_data       acknowledged  silenced      resolved
resolved        resolved      resolved      resolved      resolved      resolved      resolved
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [
    (stage, change, expected) for change, *row in ROWS for stage, expected in zip(HEAD, row, strict=True)
]  # fmt: skip


@pytest.mark.parametrize(("stage", "change", "expected"), CELLS)
def test_each_change_leads_from_each_stage_to_one_stage(stage, change, expected):
    """With and without an acknowledgement and a silence."""
    for is_acknowledged in (False, True):
        for is_silenced in (False, True):
            active = "silenced" if is_silenced else "acknowledged" if is_acknowledged else "firing"
            found = next_stage(Stage(stage), Change(change), is_acknowledged=is_acknowledged, is_silenced=is_silenced)
            assert found == (active if expected == "active" else expected)


def test_the_table_has_a_cell_for_every_stage_and_every_change():
    """Here and in the code, so that a stage or a change that is added fails."""
    assert {(stage, change) for stage, change, _ in CELLS} == {(stage, change) for stage in Stage for change in Change}
    assert {(stage, change) for stage, row in NEXT_STAGE.items() for change in row} == {
        (stage, change) for stage in Stage for change in Change
    }


def test_the_state_says_what_readers_of_three_states_know():
    """Every alert that is found and no longer pending is firing."""
    alert = Alert(
        id="a", run_id="r", kind="k", severity="warning", phase="decay", opened_step=1, severity_step=1, last_step=1,
        opened_at=0.0, summary="", evidence={},
    )  # fmt: skip
    acknowledged = advance(alert, Change.ACKNOWLEDGED, acknowledged_at=1.0)
    assert (acknowledged.stage, acknowledged.state) == ("acknowledged", "firing")
    lost = advance(alert, Change.DATA_LOST)
    assert (lost.stage, lost.state) == ("no_data", "firing")
    assert advance(acknowledged, Change.RESOLVED).state == "resolved"


@pytest.mark.parametrize(
    ("kind", "severity_step", "last_step", "resolved_step", "expected"),
    [
        ("death_spiral", 50, 80, None, False),  # it is open
        ("death_spiral", 50, 80, 81, False),
        ("death_spiral", 50, 80, 40, True),
        ("death_spiral", 50, 50, 50, True),  # the run repeated the step at which it was found
        ("death_spiral", 75, 80, 70, True),  # it became more severe at a step that was repeated
        ("death_spiral", 50, 80, 70, False),  # step 50 still counts, and at step 70 it was not found
        ("trainer_lost", 50, 50, 50, False),  # the trainer was heard again, and had made no step yet
        ("trainer_lost", 50, 50, 40, True),
        ("rule:kl", 50, 50, 50, False),  # the rule was removed
        ("rule:kl", 50, 52, 50, True),
        ("monitor_degraded", 0, 0, 0, False),  # quarantined before its first step, which is step 0
        ("monitor_degraded", 5, 5, 3, True),
        ("channel_failing:mail", 0, 0, 0, False),  # alerts about the collector are at step 0
    ],
)
def test_an_alert_is_taken_back_if_the_run_repeated_the_step_of_its_severity(
    kind, severity_step, last_step, resolved_step, expected
):
    """The clock, a rule and the collector can end an alert at its step without a rewind; a detector cannot."""
    steps = {"severity_step": severity_step, "last_step": last_step, "resolved_step": resolved_step}
    assert is_taken_back(kind=kind, **steps) is expected
