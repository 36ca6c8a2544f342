"""VUS-PR worked by hand on tiny streams."""

import math

import pytest

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.traces import Mark, Trace
from benchmarks.detection.scoring.vus import vus_pr

BENIGN = Truth(group=Group.BENIGN, kind="benign/none")
DYING = Truth(group=Group.DISPLACEMENT, kind="displacement/none", onset=10, acceleration=15, collapse=20)


def trace(truth, warned, *, rows=20):
    """Return a trace that warns on given steps."""
    return Trace.of("run", truth, range(rows), [Mark(warn=float(step in warned)) for step in range(rows)])


def test_alarms_on_all_anomalous_rows_and_no_others_are_worth_1():
    """Rows 10 to 19 of the dying run, none of the benign one; an alarm after the collapse does not count."""
    runs = [trace(DYING, range(10, 30), rows=30), trace(BENIGN, ())]
    assert vus_pr(runs, "warn", buffers=(0,)) == pytest.approx(1.0)


@pytest.mark.parametrize("warned", [(), range(20)], ids=["never", "always"])
def test_saying_the_same_of_every_row_is_worth_the_share_of_anomalous_rows(warned):
    """10 of 40 rows."""
    assert vus_pr([trace(DYING, warned), trace(BENIGN, warned)], "warn", buffers=(0,)) == pytest.approx(0.25)


def test_half_of_the_rows_earn_their_recall_and_the_rest_the_base_rate():
    """5 of 10 rows at precision 1, then everything at 10 of 40: 0.5 + 0.5 / 4."""
    runs = [trace(DYING, range(15, 20)), trace(BENIGN, ())]
    assert vus_pr(runs, "warn", buffers=(0,)) == pytest.approx(0.625)


def test_an_alarm_just_before_the_onset_is_worth_its_buffer():
    """ℓ = 4: rows 8 and 9 hold √½ and √¾. An alarm on row 9 alone is all precision √¾, and the anomaly is found."""
    before, positives = math.sqrt(0.75), (10 + 10 + math.sqrt(0.5) + math.sqrt(0.75)) / 2
    everything = 10 + math.sqrt(0.5) + math.sqrt(0.75)
    worth = before / positives * before + (1.0 - before / positives) * everything / 20
    assert vus_pr([trace(DYING, {9})], "warn", buffers=(4,)) == pytest.approx(worth)


def test_an_anomaly_of_which_nothing_is_flagged_costs_its_share_of_recall():
    """One of two dying runs is flagged whole: recall 1/2 times the half that is found, then everything at 20 of 40."""
    assert vus_pr([trace(DYING, range(10, 20)), trace(DYING, ())], "warn", buffers=(0,)) == pytest.approx(
        0.25 + 0.75 / 2
    )
