import pytest
from dash import html

from dashboard.components.alert.trainer_actions import SHOWN, action_list
from tests.dashboard.trainer_actions import ACTION


def test_a_run_without_actions_shows_none():
    """Most runs have no policy, and need no empty list."""
    assert action_list("r", []) == []


@pytest.mark.parametrize(
    ("outcome", "detail", "said"),
    [
        ("taken", "", ["Stopped", "taken"]),
        ("dry_run", "", ["Stop", "dry run"]),
        ("refused", "only 1 of 2 ranks heard", ["Stop", "refused", "only 1 of 2 ranks heard"]),
    ],
)
def test_what_was_done_is_distinguished_from_what_was_not(outcome, detail, said, texts):
    """Words distinguish them, not colour alone; then follow the time and the alert that was the reason."""
    found = texts(action_list("r", [ACTION | {"outcome": outcome, "detail": detail}]))
    assert found == ["Actions", *said, "at step ", "41", ", ", "because of ", ACTION["reason"]]


def test_an_action_that_we_do_not_know_is_called_by_its_name(texts):
    """A collector may be newer."""
    assert "dance" in texts(action_list("r", [ACTION | {"action": "dance"}]))


def test_all_but_the_newest_are_folded_away(texts):
    """A policy that acts often does not push the rest of the page away."""
    (section,) = action_list("r", [ACTION | {"step": step} for step in range(50, 40, -1)])
    *shown, folded = section.children
    assert len(shown) == 1 + SHOWN
    assert isinstance(folded, html.Details)
    assert texts(folded)[0] == "7 earlier"
