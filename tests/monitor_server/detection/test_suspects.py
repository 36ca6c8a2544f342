"""Each kind of alert points at one part of the training, or at none, and a broken instrument comes first."""

import pytest

from monitor_server.alerts.kinds import KINDS
from monitor_server.attribution.remedies import remedies
from monitor_server.detection.suspects import INSTRUMENT_KINDS, SUSPECTS, Suspect, doubts, first_steps, suspect_of


def test_every_kind_of_alert_has_a_suspect_and_nothing_else_has():
    """A kind that is added must be thought about; `unknown` is an answer."""
    assert SUSPECTS.keys() == KINDS
    assert set(SUSPECTS.values()) == set(Suspect)
    assert {suspect_of(kind) for kind in INSTRUMENT_KINDS} == {Suspect.INSTRUMENT}
    assert suspect_of("rule:mine") is Suspect.UNKNOWN


@pytest.mark.parametrize("instrument", sorted(INSTRUMENT_KINDS))
def test_an_open_alert_about_the_instrument_makes_others_doubtful_and_not_itself(instrument):
    """A collapse is doubtful, as is a rule's alert; the instrument's own alert and a silent trainer are not."""
    together = [instrument, "death_spiral", "reward_fall"]
    assert doubts("death_spiral", together) == doubts("rule:mine", together) == [instrument]
    assert doubts(instrument, [*together, *INSTRUMENT_KINDS]) == []
    assert doubts("trainer_lost", together) == []
    assert doubts("death_spiral", ["death_spiral", "mismatch_growth"]) == []


def test_each_kind_without_a_remedy_says_what_to_check_first():
    """The sentence follows a colon, so it begins in lower case and ends with a full stop."""
    for kind in [kind for kind in KINDS if not remedies(kind)]:
        step = first_steps(kind)
        assert step[0].islower(), kind
        assert step.endswith("."), kind
    assert "by hand" in first_steps("equal_rewards")
    assert "ran out of memory" in first_steps("trainer_lost")


def test_a_shift_of_difficulty_does_not_accuse_the_environment():
    """Known causes showed that it comes with a broken grader or a high rate more often than with other questions."""
    assert suspect_of("difficulty_shift") is Suspect.UNKNOWN
    assert {"questions", "hand", "rate"} <= set(
        first_steps("difficulty_shift").replace(",", "").replace(".", "").split()
    )
