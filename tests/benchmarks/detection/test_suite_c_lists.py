"""The lists of suite C: each alarm with what opened it, each event with the verdict on its warning and its page."""

import pytest

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.traces import Mark, Opening, Trace
from benchmarks.detection.suites.real_logs.by_repository import populations_table, share_with_interval
from benchmarks.detection.suites.real_logs.events import verdict
from benchmarks.detection.suites.real_logs.suite_c_lists import event_table, false_table, hard_table

HEALTHY = Truth(group=Group.BENIGN, kind="healthy")
DIP = Truth(group=Group.UNSCORED, kind="transient_dip_recovered")


def event(step):
    """Return the truth of a run whose reward collapses at a step."""
    return Truth(group=Group.FAILURE, kind="reward_collapse", onset=0, acceleration=0, collapse=step)


def trace(truth, warned=(), paged=(), *, name="owner-project__run", rows=120):
    """Return a run logged every five steps, with alarms that hold at the given rows."""
    marks = []
    for row in range(rows):
        found = [Opening(5 * row, "reward_fall", "The reward fell.", is_page=False)] if row in warned else []
        found += [Opening(5 * row, "run_collapsed", "The run has collapsed.", is_page=True)] if row in paged else []
        marks.append(Mark(warn=float(bool(found)), page=float(row in paged), found=found))
    return Trace.of(name, truth, [5 * row for row in range(rows)], marks)


def test_each_alarm_of_a_healthy_run_has_a_line_with_the_findings_that_opened_it():
    """A warning at row 4 becomes a page at row 6: the page is named by the critical finding alone."""
    table = false_table("false", [trace(HEALTHY, {4, 5, 6, 7}, {6, 7}), trace(HEALTHY), trace(DIP, {9})])
    assert table.rows == [
        ["owner-project__run", "healthy, 120 rows", "20", "warning", "reward_fall", "The reward fell"],
        ["owner-project__run", "healthy, 120 rows", "30", "page", "run_collapsed", "The run has collapsed"],
    ]


def test_findings_that_open_together_share_a_line():
    """A row that warns and pages at once opens both, and the warning has both findings."""
    kinds = [row[3:5] for row in false_table("false", [trace(HEALTHY, {4}, {4})]).rows]
    assert kinds == [["warning", "reward_fall; run_collapsed"], ["page", "run_collapsed"]]


def test_pages_of_hard_cases_are_listed_and_their_warnings_are_not():
    """A warning is acceptable in a dip that recovers, and a page is false."""
    table = hard_table("hard", [trace(DIP, {4}), trace(DIP, {4}, {5}, name="b"), trace(HEALTHY, {4}, {4})])
    assert [row[:4] for row in table.rows] == [["b", "transient_dip_recovered, 120 rows", "25", "page"]]


@pytest.mark.parametrize(
    ("warned", "reason"),
    [
        ({49}, "1 row before"),
        ({10, 50}, "at its row"),
        ({53}, "3 rows after"),
        (set(), "missed: never opened; 50 rows precede it"),
        ({54}, "missed: opened 4 rows after; 50 rows precede it"),
    ],
)
def test_the_verdict_counts_rows_from_the_event(warned, reason):
    """The event is at step 250, which is row 50 of a run that is logged every five steps."""
    assert verdict(trace(event(250), warned - {10}), "warn") == reason


def test_an_alarm_long_before_the_event_is_no_alarm_of_it():
    """The event is at row 80. What opened at row 29 lies 51 rows before, whether or not it still holds; 30 counts."""
    assert verdict(trace(event(400), {30}), "warn") == "50 rows before"
    assert verdict(trace(event(400), {29}), "warn") == "missed: opened 51 rows before and had ended; 80 rows precede it"
    held = verdict(trace(event(400), set(range(29, 90))), "warn")
    assert held == "missed: opened 51 rows before and still held; 80 rows precede it"
    both = verdict(trace(event(400), {20, 90}), "warn")
    assert both == "missed: opened 60 rows before and had ended, then opened 10 rows after; 80 rows precede it"


def test_a_missed_page_names_the_warnings_that_did_not_become_one():
    """Only the warnings that count for the event are named; the one at row 10 lies too far before it."""
    expected = "missed: never opened, warned by reward_fall alone; 80 rows precede it"
    assert verdict(trace(event(400), {78}), "page") == expected
    assert verdict(trace(event(400), {10}), "page") == "missed: never opened; 80 rows precede it"
    assert verdict(trace(event(400), {78}, {85}), "page") == "5 rows after"


def test_every_event_is_listed_with_all_its_alarms():
    """Seven warnings, of which one is a page, are seven steps in the cell, and both verdicts stand in the line."""
    table = event_table("events", [trace(event(400), {1, 3, 5, 7, 9, 78}, {85}), trace(HEALTHY, {3})])
    assert table.rows == [
        [
            "owner-project__run",
            "reward_collapse",
            "400 (row 81 of 120)",
            "5, 15, 25, 35, 45, 390, 425",
            "425",
            "2 rows before",
            "5 rows after",
        ]
    ]


def test_populations_are_counted_by_run_and_by_repository():
    """Of three negatives one is warned: a third of the runs, but half of one repository and none of the other."""
    other = Truth(group=Group.BENIGN, kind="healthy", is_language_model=False)
    runs = [
        trace(HEALTHY, {4}, name="a__1", rows=60),
        trace(HEALTHY, name="a__2"),
        trace(HEALTHY, name="b__1"),
        trace(other, {4}, {4}, name="c__1"),
        trace(event(400), {78}, {86}, name="a__3"),
        trace(event(400), {20}, name="a__4"),
    ]
    table = populations_table("by population", runs)
    rows = {row[0]: dict(zip(table.header[1:], row[1:], strict=True)) for row in table.rows}
    language = rows["language models"]
    assert language["negatives (repositories)"] == "3 (2)"
    assert language["warned"].startswith("1 [")
    assert language["paged"].startswith("0 [")
    assert language["events (repositories)"] == "2 (1)"
    assert language["warned before, within 50 rows"].startswith("1 [")
    assert language["paged by +5"].startswith("0 [")  # row 86 is 6 rows after row 80
    assert language["first warned over 50 rows before"] == "1"
    assert table.rows[0][3] == "25.0 % –"  # repository a 1 of 2, repository b 0 of 1; two are too few to draw from
    assert rows["of them, at most 60 rows"]["negatives (repositories)"] == "1 (1)"
    assert rows["of them, more than 60 rows"]["negatives (repositories)"] == "2 (2)"
    assert rows["other models"]["paged"].startswith("1 [")


def test_an_interval_of_drawn_repositories_needs_five_that_differ():
    """Equal shares have the same mean in each draw, which would say that the share is certain."""
    shares = {str(number): [True] for number in range(5)}
    assert share_with_interval(shares) == "100.0 % –"
    assert share_with_interval(shares | {"4": [False]}, digits=2) == "80.0 % [0.40, 1.00]"
