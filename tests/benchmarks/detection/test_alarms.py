"""Scores worked by hand on tiny streams."""

import math

import pytest

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.alarms import auroc, false_alarms, flaps, lead, leads, nab, utility
from benchmarks.detection.scoring.scores import caught_by, misses, score_level, twin_auroc
from benchmarks.detection.scoring.traces import Mark, Trace

BENIGN = Truth(group=Group.BENIGN, kind="benign/none")
DYING = Truth(group=Group.DISPLACEMENT, kind="displacement/none", onset=10, acceleration=30, collapse=40)


def trace(truth, warned, *, paged=(), rows=50, name="run"):
    """Return a trace that warns and pages on given steps."""
    marks = [Mark(warn=float(step in warned), page=float(step in paged)) for step in range(rows)]
    return Trace.of(name, truth, range(rows), marks)


def test_an_episode_opens_where_the_row_before_was_quiet():
    """Rows 3 to 5 and row 8 are two episodes; a first row that alarms opens one."""
    assert trace(BENIGN, {3, 4, 5, 8}).openings("warn").tolist() == [3, 8]
    assert trace(BENIGN, {0, 1}).openings("warn").tolist() == [0]


def test_a_higher_threshold_hears_only_stronger_alarms():
    """Of strengths 1 and 2 only the second reaches 1.5 thresholds."""
    found = Trace.of("run", BENIGN, range(3), [Mark(warn=1.0), Mark(), Mark(warn=2.0)])
    assert found.openings("warn", threshold=1.5).tolist() == [2]


def test_lead_counts_from_the_first_alarm_inside_the_failure():
    """Of alarms at 5, 25 and 35 the one at 25 counts: 40 − 25 = 15; at the collapse it is too late."""
    assert lead([5, 25, 35], DYING) == 15
    assert lead([40], DYING) == 0
    assert lead([9], DYING) == 0
    assert lead([3], BENIGN) == 0


def test_an_alarm_that_began_before_the_onset_earns_no_lead():
    """It is a false alarm at its first row and at every later row."""
    found = leads([trace(DYING, set(range(5, 40)))], "warn")
    assert found.steps == (0,)
    assert found.early == 1


def test_leads_hold_misses_as_zero():
    """Leads 30, 15 and 0: recall at 5 and 20 is 2/3 and 1/3, the median 15, p10 = 0.2·15 = 3."""
    found = leads([trace(DYING, {10}), trace(DYING, {25}), trace(DYING, set())], "warn")
    assert sorted(found.steps) == [0, 15, 30]
    assert found.recall(5) == pytest.approx(2 / 3)
    assert found.recall(20) == pytest.approx(1 / 3)
    assert found.quantile(0.5) == 15
    assert found.quantile(0.1) == pytest.approx(3.0)
    assert found.median_delay == 7.5  # delays 0 and 15 after the onset at 10


def test_delays_of_pages_count_from_the_acceleration():
    """Paged at 33 with t₂ = 30: 3 steps."""
    assert leads([trace(DYING, set(), paged={33})], "page").median_delay == 3
    assert math.isnan(leads([trace(DYING, set())], "page").median_delay)


def test_false_alarms_count_runs_episodes_and_rows_of_benign_runs_alone():
    """One of two benign runs has two episodes in 100 rows: share 0.5, 20 per 1,000. The dying run does not count."""
    found = false_alarms([trace(BENIGN, {3, 8}), trace(BENIGN, set()), trace(DYING, {3})], "warn")
    assert (found.runs, found.alarmed, found.rows, found.episodes) == (2, 1, 100, 2)
    assert found.share == 0.5
    assert found.rate == 20.0


def test_utility_rewards_lead_and_charges_false_alarms():
    """Leads 40 and 5 are worth 1 and 0; 0.2 false alarms per 1,000 at weight 0.5 cost 0.1."""
    assert utility([40, 5], 0.2, weight=0.5) == pytest.approx(0.4)
    assert utility([0, 0], 0.0, weight=5.0) == 0.0
    assert utility([], 1.0, weight=5.0) == -5.0


def test_flaps_count_reopenings():
    """Two episodes are one flap, one or none are none: a mean of 1/3."""
    runs = [trace(BENIGN, {3, 8}), trace(BENIGN, {3}), trace(BENIGN, set())]
    assert flaps(runs, "warn") == pytest.approx(1 / 3)


def test_auroc_counts_ties_half():
    """Pairs (2,1), (2,2), (0,1), (0,2): one win, one tie: 1.5/4."""
    assert auroc([2, 0], [1, 2]) == pytest.approx(0.375)
    with pytest.raises(ValueError, match="both sides"):
        auroc([], [1])


def test_twins_are_compared_in_the_dying_ones_window():
    """The living twin's alarm after the other's collapse does not count against the detector."""
    assert twin_auroc([trace(DYING, {20}), trace(BENIGN, {45})]) == 1.0
    assert twin_auroc([trace(DYING, {20}), trace(BENIGN, {20})]) == 0.5
    assert twin_auroc([trace(DYING, {20}), trace(BENIGN, {20}, paged={21})]) == 0.0
    assert twin_auroc([trace(DYING, {32}), trace(BENIGN, set())], until="acceleration") == 0.5


def test_every_miss_has_its_reason():
    """Never, early, late and early-then-late are different reasons; a run with an alarm in time is no miss."""
    runs = [
        trace(DYING, set(), name="silent"),
        trace(DYING, {7}, name="early"),
        trace(DYING, {43}, name="late"),
        trace(DYING, {7, 43}, name="both"),
        trace(DYING, {20}, name="hit"),
    ]
    reasons = {miss.run: miss.reason for miss in misses(runs, "warn")}
    assert reasons == {
        "silent": "never alarmed",
        "early": "false alarm at step 7, 3 before the onset, and nothing new since",
        "late": "late: 3 steps after the collapse",
        "both": "false alarm at step 7, then nothing new until 3 steps after the collapse",
    }


def test_what_cannot_be_foreseen_may_be_caught_soon_after():
    """An alarm at 43 is within 5 steps of the collapse at 40, one at 46 is not."""
    assert caught_by([trace(DYING, {43}), trace(DYING, {46}), trace(DYING, {5})], "warn", slack=5) == 1


def test_a_level_score_holds_together():
    """One clean benign run and one lead of 15: no false alarm, recall at 10 is 1, EWU = (15 − 5)/35."""
    score = score_level([trace(BENIGN, set()), trace(DYING, {25})], "warn")
    assert score.benign_share == 0.0
    assert score.recall_10 == 1.0
    assert score.recall_20 == 0.0
    assert score.utility == pytest.approx(10 / 35)


def test_a_candidate_must_mark_every_row():
    """A missing mark raises an error, because it would shift all later alarms."""
    with pytest.raises(ValueError, match="one mark a row"):
        Trace.of("run", BENIGN, range(3), [Mark()])


def test_nab_is_0_for_silence_and_100_for_an_alarm_at_every_onset():
    """A window caught half way is worth (1 + e^−5) / (1 + e^−2.5); a false alarm costs 0.11 of 1."""
    assert nab([trace(DYING, set())], "warn") == pytest.approx(0.0)
    assert nab([trace(DYING, {10})], "warn") == pytest.approx(100.0)
    best, half = 2 / (1 + math.exp(-5)), 2 / (1 + math.exp(-2.5))
    assert nab([trace(DYING, {25})], "warn") == pytest.approx(100.0 * half / best)
    assert nab([trace(DYING, {10}), trace(BENIGN, {3})], "warn") == pytest.approx(100.0 * (best - 0.11) / best)
    assert nab([trace(DYING, {5, 10})], "warn") == pytest.approx(100.0 * (best - 0.11) / best)
