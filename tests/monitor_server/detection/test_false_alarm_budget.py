"""The budget of false pages: the bound for any numbers, the ledger, and unchanged pages without a budget."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor_server.detection.calibration import Calibration
from monitor_server.detection.engine import Engine, EngineFactory
from monitor_server.detection.false_alarm_budget import FalseAlarmBudget, Warranty
from monitor_server.detection.protocol import Finding, Observation, Severity
from tests.monitor_server.detection.spirals import GOLDEN, first_steps, spiral

# A healthy run as the strengths of its rows: 0 is a row without a page.
rows = st.lists(st.one_of(st.just(0.0), st.floats(1.0, 50.0)), min_size=1, max_size=30)
ENOUGH = Warranty.of_runs(1000.0, [(300, 0.0)] * 4)


def page(step, strength, kind="death_spiral"):
    """Return a critical finding of a strength."""
    return Finding(
        kind=kind,
        severity=Severity.CRITICAL,
        step=step,
        score=strength,
        threshold=0.0 if math.isinf(strength) else 1.0,
        summary="",
    )


def opened(warranty, strengths):
    """Return the number of pages that a run has opened after each of its rows."""
    budget, pages = FalseAlarmBudget(warranty), []
    for step, strength in enumerate(strengths):
        budget.update([page(step, strength)] if strength else [])
        pages.append(budget.pages)
    return pages


@settings(max_examples=100, deadline=None)
@given(runs=st.lists(rows, min_size=2, max_size=12), per_page=st.floats(1.0, 200.0))
def test_of_any_runs_each_in_turn_the_new_one_the_pages_are_within_the_steps(runs, per_page):
    """The theorem itself: summed over which run is new, pages at any moment are at most the steps of all runs / N."""
    histories = [(len(run), max(run)) for run in runs]
    worst = 0
    for place, run in enumerate(runs):
        warranty = Warranty.of_runs(per_page, histories[:place] + histories[place + 1 :])
        if warranty.is_in_force:
            worst += max(opened(warranty, run))
    assert worst <= sum(steps for steps, _ in histories) / per_page + 1e-6


@given(strengths=rows, history=st.lists(st.tuples(st.integers(1, 500), st.floats(0.0, 30.0)), min_size=1, max_size=9))
def test_the_pages_of_a_run_never_exceed_what_its_evidence_allows(strengths, history):
    """At every row: pages ≤ (H / N) g(M) / (g(M) + Σ g), with the largest strength up to that row."""
    warranty = Warranty.of_runs(100.0, history)
    pages = opened(warranty, strengths)
    if warranty.is_in_force:
        largest = np.maximum.accumulate(strengths)
        assert all(count <= warranty.allowance(strength) for count, strength in zip(pages, largest, strict=True))


@given(
    history=st.lists(st.tuples(st.integers(1, 500), st.floats(0.0, 30.0)), max_size=9), strength=st.floats(1.0, 99.0)
)
def test_the_strength_needed_is_where_the_first_page_opens(history, strength):
    """A page opens from the named strength on and not below; without a warranty every page opens."""
    warranty = Warranty.of_runs(400.0, history)
    does_open = opened(warranty, [strength]) == [1]
    if not warranty.is_in_force:
        assert does_open
    elif not math.isclose(strength, warranty.strength_needed, rel_tol=1e-6):
        assert does_open == (strength > warranty.strength_needed)


def test_a_page_that_cannot_be_paid_is_a_warning_with_its_reason():
    """One healthy run of strength 2 makes a page of strength 1.5 too expensive, and one of strength 4 affordable."""
    budget = FalseAlarmBudget(Warranty.of_runs(1000.0, [(400, 0.0), (400, 2.0), (400, 0.0)]))
    (held,) = budget.update([page(1, 1.5)])
    assert held.severity is Severity.WARNING
    assert "held back as a warning: the warranty of one false page in 1,000 recorded steps" in held.evidence["warranty"]
    assert held.evidence["warranty"].endswith("as of step 1")
    assert held.evidence["pages_allowed"] < 1.0
    (paid,) = budget.update([page(2, 4.0)])
    assert paid.severity is Severity.CRITICAL
    assert (budget.pages, budget.held_back) == (1, 1)


def test_an_open_page_costs_once_and_a_second_one_again():
    """Kinds that join an open page are free; after it has ended, 1,200 healthy steps pay no second page in 1,000."""
    budget = FalseAlarmBudget(ENOUGH)
    for step in range(3):
        found = budget.update([page(step, 2.0), page(step, 3.0, "run_collapsed")])
        assert {finding.severity for finding in found} == {Severity.CRITICAL}
    assert budget.pages == 1
    budget.update([])
    assert [f.severity for f in budget.update([page(5, 9.0)])] == [Severity.WARNING]


@pytest.mark.parametrize(("replaced", "pages"), [(2, 1), (3, 2), (10, 2)])
def test_a_page_that_a_rewind_has_taken_back_stays_paid_and_what_is_found_again_is_another(replaced, pages):
    """The page opened three rows ago: its alert is resolved where all of them are replaced, and opens again."""
    budget = FalseAlarmBudget(Warranty(steps_per_page=1000.0))  # without healthy runs every page opens
    for step in range(3):
        budget.update([page(step, 2.0)])
    budget.take_back(replaced, 5)
    budget.update([page(3, 2.0)])
    assert budget.pages == pages


def test_a_page_that_was_taken_over_outlasts_a_rewind_while_a_critical_finding_holds():
    """When it began is not known: its alert may be older than the rewind, and would be shown beside held-back steps."""
    budget = FalseAlarmBudget(ENOUGH)
    budget.begin_late(40, [page(40, 2.0)])
    budget.take_back(7, 33)
    assert [finding.severity for finding in budget.update([page(34, 2.0)])] == [Severity.CRITICAL]
    assert (budget.pages, budget.held_back) == (1, 0)


def test_a_value_that_is_no_number_is_neither_held_back_nor_counted():
    """NaN is a fact and not a judgement, so the budget does not concern it."""
    budget = FalseAlarmBudget(ENOUGH)
    budget.pages = 9
    (found,) = budget.update([page(1, math.inf, "non_finite")])
    assert found.severity is Severity.CRITICAL
    assert budget.pages == 9


def test_without_enough_healthy_runs_every_page_opens_and_says_so():
    """No silent guarantee: the evidence names how many of how many healthy runs there are."""
    few = Warranty.of_runs(10_000.0, [(300, 0.0)] * 12)
    (found,) = FalseAlarmBudget(few).update([page(1, 1.1)])
    assert found.severity is Severity.CRITICAL
    assert found.evidence["warranty"] == ("no warranty yet: 12 of about 34 healthy runs, with 3,600 of 10,000 steps")
    loud = Warranty.of_runs(10_000.0, [(1000, 0.0)] * 9 + [(1000, 4.0)])
    assert loud.describe().endswith("pages among them that are too strong for so few steps")
    assert "no warranty yet: no healthy runs" in Warranty(steps_per_page=10_000.0).describe()
    nearly = Warranty(steps_per_page=1000.4, runs=10, steps=1000)  # such as 100 GPU-hours make
    assert nearly.describe() == "no warranty yet: 10 of about 11 healthy runs, with 1,000 of 1,001 steps"


@pytest.mark.parametrize("warranty", [None, ENOUGH])
def test_a_budget_that_can_pay_moves_no_alarm(warranty):
    """The golden steps are the same without a budget, and with a budget from healthy runs without a page."""
    assert first_steps(spiral(), Engine(Calibration(warranty=warranty))) == GOLDEN


def test_a_page_that_is_held_back_changes_no_phase_and_no_forecast():
    """Only the severity changes, so that a run without budget still shows where it stands."""
    loud = Warranty.of_runs(1000.0, [(600, 1e5), (600, 1e5)])
    plain, held = Engine(), Engine(Calibration(warranty=loud))
    severities = set()
    for observation in spiral():
        expected, given_back = plain.update(observation), held.update(observation)
        assert (given_back.phase, given_back.forecast) == (expected.phase, expected.forecast)
        assert [f.kind for f in given_back.findings] == [f.kind for f in expected.findings]
        severities |= {f.severity for f in given_back.findings}
    assert Severity.CRITICAL not in severities


def test_an_engine_without_a_budget_has_the_state_that_it_had():
    """The ledger is in the state only where a budget is stated."""
    assert "page_budget" not in Engine().state()


@settings(max_examples=6, deadline=None)
@given(at=st.integers(1, 159), seed=st.integers(0, 10**6))
def test_an_engine_with_a_budget_resumes_bit_for_bit(at, seed):
    """The state through JSON after any row, the ledger included, goes on as the original does."""
    make = EngineFactory(Calibration(warranty=Warranty.of_runs(1000.0, [(600, 1.4), (600, 0.0)])))
    judge, resumed = make(), make()
    for observation in spiral(seed=seed):
        if observation.step == at:
            resumed = make.from_state(json.loads(json.dumps(judge.state())))
        elif observation.step < at:
            judge.update(observation)
            continue
        assert repr(resumed.update(observation)) == repr(judge.update(observation))
    assert resumed.state()["page_budget"] == judge.state()["page_budget"]


def test_a_step_that_was_seen_before_costs_nothing():
    """A repeated row returns the same assessment and leaves the ledger as it is."""
    engine = Engine(Calibration(warranty=ENOUGH))
    last = Observation(step=1, signals={"reward/mean": 0.5})
    engine.update(last)
    before = engine.state()["page_budget"]
    engine.update(last)
    assert engine.state()["page_budget"] == before
    assert before["seen"] == 1


def test_a_warranty_that_begins_during_a_run_counts_its_steps_and_its_open_page():
    """The run is longer than every healthy one, and its open page goes on; only the next one is another page."""
    plain, rows = Engine(), spiral()
    opens = next(row.step for row in rows if any(f.severity is Severity.CRITICAL for f in plain.update(row).findings))
    warranty = Warranty.of_runs(1000.0, [(600, 1e5), (600, 1e5)])  # so loud that no new page can open
    budgeted = EngineFactory(Calibration(warranty=warranty)).from_state(json.loads(json.dumps(plain.state())))
    following = next(row for row in rows if row.step > opens)
    assert Severity.CRITICAL in {finding.severity for finding in budgeted.update(following).findings}
    ledger = budgeted.state()["page_budget"]
    assert (ledger["seen"], ledger["pages"], ledger["held_back"]) == (rows.index(following) + 1, 1, 0)


def test_a_warranty_that_begins_during_a_calm_run_has_its_whole_budget():
    """No page is open, and a NaN that is open does not count."""
    budget = FalseAlarmBudget(ENOUGH)
    budget.begin_late(40, [])
    assert (budget.seen, budget.pages, budget.is_open) == (40, 0, False)
    budget.begin_late(40, [page(40, math.inf, "non_finite")])
    assert (budget.pages, budget.is_open) == (0, True)
