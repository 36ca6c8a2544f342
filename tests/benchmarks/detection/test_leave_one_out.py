"""Leaving one repository out: the choice never reads it, and varying the bounds leaves no trace."""

from benchmarks.detection.candidates.variants import Variant, scaled
from benchmarks.detection.leave_one_out import Outcome, best, left_out_table
from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.detector_parts import mechanisms
from monitor_server.detection.detectors import run_collapsed
from monitor_server.detection.detectors.reward_loss import RewardLoss
from monitor_server.detection.registry import DETECTORS

SHIPPED = Variant(rarity=1.0, size=1.0, without="")
LOOSE = Variant(rarity=10.0, size=0.6, without="")


def outcome(repository, *, event, warned):
    """Return a run of a repository that was warned, or not."""
    kinds = frozenset({"reward_fall"}) if warned else frozenset()
    changes = frozenset({(frozenset(), kinds)})
    return Outcome(repository=repository, is_event=event, kinds=kinds, in_time=(changes, changes, frozenset()))


def bounds():
    """Return every bound there is."""
    sizes = {name: d.size for name, d in DETECTORS.items() if issubclass(d, ShiftDetector)}
    return sizes, dict(mechanisms.CHANNELS), run_collapsed.FAST, RewardLoss.RARITY


def test_the_choice_does_not_see_what_is_left_out():
    """Loose bounds find the event of one repository only; without it the shipped ones are chosen, with it the loose."""
    outcomes = {
        SHIPPED: [outcome("a", event=True, warned=True), outcome("b", event=True, warned=False)],
        LOOSE: [outcome("a", event=True, warned=True), outcome("b", event=True, warned=True)],
    }
    assert best(outcomes, left_out="b") == SHIPPED
    assert best(outcomes, left_out="a") == LOOSE


def test_too_many_false_warnings_outweigh_events():
    """A variant beyond the bound of warned negatives is not chosen, however many events it finds."""
    quiet = [outcome("a", event=False, warned=False)] * 9
    outcomes = {
        SHIPPED: [*quiet, outcome("a", event=False, warned=False), outcome("a", event=True, warned=False)],
        LOOSE: [*quiet, *[outcome("a", event=False, warned=True)] * 2, outcome("a", event=True, warned=True)],
    }
    assert best(outcomes, left_out="b") == SHIPPED


def test_short_runs_are_also_counted_apart():
    """Two short negatives, one of them warned, and a long event: each length has a line of runs and of repositories."""
    warned = frozenset({"reward_fall"})
    found = [
        Outcome(repository="a", is_event=False, is_short=True, kinds=warned),
        Outcome(repository="a", is_event=False, is_short=True),
        outcome("b", event=True, warned=True),
    ]
    table = left_out_table({SHIPPED: found})
    lines = {tuple(row[:2]): row[2:] for row in table.rows}
    assert lines["a", str(SHIPPED)] == ["1 of 2", "0 of 2", "", "", ""]
    assert lines["b", str(SHIPPED)] == ["", "", "1 of 1", "1 of 1", "0 of 1"]
    assert [cell[:6] for cell in lines["of them, at most 60 rows", "runs"][:3]] == ["1 of 2", "0 of 2", "0 of 0"]
    assert [cell[:6] for cell in lines["of them, more than 60 rows", "runs"]][2:] == ["1 of 1", "1 of 1", "0 of 1"]
    assert lines["of them, at most 60 rows", "by repository"][0].startswith("50.0 %")


def test_an_alarm_opens_where_none_held_on_the_row_before_and_a_kind_that_is_left_out_holds_nothing():
    """A reward fall that begins while the clip share alarms opens nothing, unless the clip share is left out."""
    fall, clip = frozenset({"reward_fall"}), frozenset({"clip_surge"})
    later = frozenset({(clip, clip | fall)})
    found = [Outcome(repository="a", is_event=True, kinds=clip | fall, in_time=(later, later, frozenset()))]
    without_clip = Variant(rarity=1.0, size=1.0, without="clip_surge")
    for variant, warned in ((SHIPPED, "0 of 1"), (without_clip, "1 of 1")):
        lines = {tuple(row[:2]): row[2:] for row in left_out_table({variant: found}).rows}
        assert lines["all, each left out", "runs"][2].startswith(warned)


def test_varied_bounds_are_put_back():
    """Inside, rises and falls both count sooner at smaller sizes; afterwards all is as it was."""
    before = bounds()
    with scaled(10.0, 0.6):
        sizes, *_ = bounds()
        assert sizes["entropy_explosion"].factor < before[0]["entropy_explosion"].factor
        assert sizes["reward_fall"].factor > before[0]["reward_fall"].factor
        assert all(sizes[name].rarity > size.rarity for name, size in before[0].items())
        assert before[3] < RewardLoss.RARITY
    assert bounds() == before
