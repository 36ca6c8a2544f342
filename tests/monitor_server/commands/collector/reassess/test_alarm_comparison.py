"""The comparison of two versions over judged runs: pages, lead, nights, hours, and the changes that count as worse."""

import dataclasses
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.commands.collector.reassess.alarm_comparison import (
    CURRENT,
    RECORDED,
    Alarms,
    CriticalAlert,
    JudgedRun,
    find_worse,
    find_wrong_spans,
    measure,
    page_episodes,
)


def judged(*, failed, recorded, current, warned=(True, True), failed_at=None, times=None):
    """Return a judged run with the pages of both versions."""
    return JudgedRun(
        id="0" * 16,
        name="run",
        has_failed=failed,
        failed_at=failed_at,
        alarms={
            RECORDED: Alarms(pages=recorded, is_warned=warned[0]),
            CURRENT: Alarms(pages=current, is_warned=warned[1]),
        },
        times=times or {},
    )


def at(hour, day=24):
    """Return a time of a day of November 2026, local time."""
    return time.mktime((2026, 11, day, hour, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (judged(failed=True, recorded=[10], current=[]), "run: no page, where there was a right one at step 10"),
        (judged(failed=True, recorded=[10], current=[12]), "run: paged at step 12, where it was paged at step 10"),
        (
            judged(failed=True, recorded=[], current=[], warned=(True, False)),
            "run: no warning, where there was a right one",
        ),
        (judged(failed=False, recorded=[10], current=[5, 9]), "run: 2 wrong pages, where there were 1"),
        (
            judged(failed=False, recorded=[], current=[], warned=(False, True)),
            "run: a wrong warning, where there was none",
        ),
    ],
)
def test_what_is_worse_is_named_with_both_versions(run, line):
    """Each run has one line."""
    assert find_worse([run]) == [line]


@pytest.mark.parametrize(
    "run",
    [
        judged(failed=True, recorded=[10], current=[8]),
        judged(failed=True, recorded=[], current=[8], warned=(False, True)),
        judged(failed=False, recorded=[10, 20], current=[9]),
        judged(failed=False, recorded=[10], current=[], warned=(True, False)),
    ],
)
def test_what_is_equal_or_better_is_not_worse(run):
    """Earlier right pages and fewer wrong ones."""
    assert find_worse([run]) == []


@given(pages=st.lists(st.integers(0, 50), max_size=5), failed=st.booleans(), warned=st.booleans())
def test_a_version_is_never_worse_than_itself(pages, failed, warned):
    """This holds for any alarms."""
    pages = sorted(pages)
    assert find_worse([judged(failed=failed, recorded=pages, current=pages, warned=(warned, warned))]) == []


def test_a_page_that_was_judged_wrong_is_wrong_in_a_run_that_failed_later():
    """A version without this page is not late; it has the lead of the right page, and disturbs no night."""
    times = {step: at(23) + 3600.0 * step for step in range(40)}
    run = judged(failed=True, recorded=[5, 30], current=[30], failed_at=36, times=times)
    run = dataclasses.replace(run, wrong_spans=find_wrong_spans([CriticalAlert("a", 5, 5, 8)], [False]))
    assert find_worse([run]) == []
    before, now = measure([run], RECORDED, gpus=1.0), measure([run], CURRENT, gpus=1.0)
    assert [(m.pages, m.right_pages, m.lead, m.nights, m.gpu_hours) for m in (before, now)] == [
        (2, 1, 6, 1, 9.0),
        (1, 1, 6, 0, 9.0),
    ]
    worse = dataclasses.replace(run, alarms={RECORDED: run.alarms[CURRENT], CURRENT: run.alarms[RECORDED]})
    assert find_worse([worse]) == ["run: 1 wrong pages, where there were 0"]


def test_measures_count_right_pages_lead_nights_and_hours():
    """Two failing runs, one paged 20 steps ahead and one not at all, and a healthy run paged in two nights."""
    times = {step: at(12) + 3600.0 * step for step in range(11)}
    failing = judged(failed=True, recorded=[4], current=[4], failed_at=24, times=times)
    missed = judged(failed=True, recorded=[], current=[], failed_at=9)
    nights = {1: at(23), 2: at(2, day=25), 3: at(12, day=25), 4: at(6, day=26)}
    healthy = judged(failed=False, recorded=[1, 2, 3, 4], current=[3], times=nights)
    runs = [failing, missed, healthy]
    before, now = measure(runs, RECORDED, gpus=8.0), measure(runs, CURRENT, gpus=8.0)
    assert (before.pages, before.right_pages, before.lead, before.nights, before.gpu_hours) == (5, 1, 10.0, 2, 48.0)
    assert (now.pages, now.right_pages, now.nights) == (2, 1, 0)


def test_a_version_that_does_not_know_every_run_is_measured_and_compared_where_it_does():
    """A run that was judged after its alarms were saved is neither a miss nor worse."""
    known = judged(failed=True, recorded=[10], current=[10], failed_at=14)
    earlier = dataclasses.replace(known, alarms={**known.alarms, "builtin-1": Alarms(pages=[8], is_warned=True)})
    runs = [earlier, known]
    found = measure(runs, "builtin-1", gpus=1.0)
    assert (found.runs, found.pages, found.lead) == (1, 1, 6.0)
    assert measure(runs, CURRENT, gpus=1.0).runs == 2
    assert find_worse(runs, "builtin-1") == ["run: paged at step 10, where it was paged at step 8"]
    assert find_worse(runs, "builtin-2") == []


def test_what_has_no_times_is_not_observed():
    """Unknown nights and hours are not 0, and there is no lead without a step of a failure."""
    found = measure([judged(failed=True, recorded=[4], current=[4])], RECORDED, gpus=1.0)
    assert (found.lead, found.nights, found.gpu_hours) == (None, None, None)


def test_alerts_that_overlap_are_one_page():
    """A second kind that begins while the first holds, or at the step where it ends, opens no further page."""
    first, second, third = (CriticalAlert(kind, at, at, at + 10) for kind, at in (("a", 10), ("b", 20), ("c", 31)))
    assert page_episodes([first, second, third]) == [10, 31]
    assert page_episodes([CriticalAlert("a", 10, 10, None), CriticalAlert("b", 50, 50, 60)]) == [10]
    assert page_episodes([CriticalAlert("a", 5, 40, 60), CriticalAlert("b", 20, 20, 30)]) == [20, 40]
    assert page_episodes([]) == []


@pytest.mark.parametrize(
    ("alerts", "pages"),
    [
        # The run went back from 120 to 80: what opened at 100 ended there, and the run is paged again at 95.
        ([("a", 100, 120, True), ("a", 95, 130, False)], [100, 95]),
        ([("a", 100, 120, True), ("b", 95, 98, False)], [100, 95]),
        ([("a", 100, 120, True), ("a", 105, 110, False)], [100, 105]),
        ([("a", 100, 120, True), ("b", 110, None, False)], [100, 110]),
        # Both are resolved before the run goes back.
        ([("a", 50, 60, False), ("a", 55, 58, False)], [50, 55]),
        # Two alerts of one passage are one page, also where the rewind ends both.
        ([("a", 100, 120, True), ("b", 110, 120, True)], [100]),
    ],
)
def test_a_page_does_not_outlast_a_rewind(alerts, pages):
    """The steps begin again at the rewind, so a page after it is another one, as its alert and its message are."""
    assert page_episodes(CriticalAlert(kind, at, at, end, back) for kind, at, end, back in alerts) == pages


def test_an_alert_from_before_a_checkpoint_belongs_to_its_page_after_the_run_went_back_to_it():
    """The backtest of the same run has the same pages: what holds since before the rewind is one page."""
    open_since = CriticalAlert("death_spiral", 32, 32, None)
    found = [open_since, CriticalAlert("a", 38, 38, 48, is_taken_back=True), CriticalAlert("a", 40, 42, None)]
    assert page_episodes(found) == [32]


def test_an_alert_that_is_not_found_after_a_rewind_held_up_to_the_last_step_before_it():
    """The run went back from step 46 to 42. Until then another alert of the first attempt belonged to the same page."""
    item = {"opened_step": 41, "severity_step": 41, "last_step": 46, "resolved_step": 42, "is_taken_back": False}
    other = {"opened_step": 44, "severity_step": 44, "last_step": 46, "resolved_step": 42, "is_taken_back": True}
    again = {"opened_step": 44, "severity_step": 44, "last_step": 70, "resolved_step": None, "is_taken_back": False}
    kinds = zip(("rate", "collapse", "collapse"), (item, other, again), strict=True)
    assert page_episodes([CriticalAlert.of_item({"kind": kind} | each) for kind, each in kinds]) == [41, 44]
