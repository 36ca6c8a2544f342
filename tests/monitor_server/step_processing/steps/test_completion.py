"""The completion of steps, directly on a store: no HTTP and no thread."""

from contextlib import contextmanager

import pytest

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.settings import Settings
from monitor_server.step_processing.events import StepCompleted
from monitor_server.step_processing.run_context import RunContext
from monitor_server.step_processing.steps.budget import MAX_STEPS_PER_SLICE, Budget
from monitor_server.step_processing.steps.completion import Completion
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.step_processing.steps.late_records import LateRecords
from monitor_server.step_processing.steps.rank_merging import step_bounds
from monitor_server.step_processing.steps.waiting import WaitingSteps

SIGNALS = {"a": 0}
"""The only signal, and its position in the stored rows."""


@pytest.fixture
def completion(scripted):
    """Completion of steps with scripted detectors; a step waits for all ranks for 60 s at most."""
    settings = Settings(step_deadline_seconds=60.0)
    return Completion(Tracker(scripted), LateRecords(settings), settings=settings)


@pytest.fixture
def working(store, clock):
    """A run in a transaction, with the steps that wait after all records of its log were read."""

    @contextmanager
    def open_run(run_id, *, projected_attempt=1):
        with store.write() as repositories:
            run = repositories.runs.lock(run_id)
            run.projected_attempt, run.position = projected_attempt, run.log_end
            context = RunContext(
                repositories=repositories,
                run=run,
                alerts=Lifecycle(repositories.alerts.open(run_id), run_id),
                positions=SIGNALS,
                now=clock.now,
                is_watched=True,
            )
            waiting = WaitingSteps(context, step_bounds(Settings()))
            records, _ = repositories.records.after(run_id, 0, limit=10_000, max_bytes=1_000_000)
            waiting.look_up(records)
            waiting.add(records, now=context.now)
            yield context, waiting
            context.write(repositories)

    return open_run


def _completed(context):
    return [(event.step.attempt, event.step.step) for event in context.events if isinstance(event, StepCompleted)]


def _records(*steps):
    return [{"step": step, "scalars": {"a": float(step)}} for step in steps]


def test_a_step_waits_for_every_rank_and_holds_back_the_later_ones(completion, working, append):
    """Of two ranks both have reported step 1, one has reported step 2, and both have reported step 3."""
    append(rank=0, world_size=2, records=_records(1, 2, 3))
    run_id = append(rank=1, world_size=2, records=_records(1, 3))
    with working(run_id) as (context, waiting):
        assert completion.complete(context, waiting, Budget())
        assert _completed(context) == [(1, 1)]
        assert waiting.first()[0] == (1, 2)
        assert (context.run.last_attempt, context.run.last_step) == (1, 1)


def test_a_step_is_complete_when_its_deadline_has_passed(completion, working, append, clock):
    """The second rank never reports; the step is complete 60 s after its first record."""
    run_id = append(rank=0, world_size=2, records=_records(1))
    with working(run_id) as (context, waiting):
        context.now = clock.now + 59
        completion.complete(context, waiting, Budget())
        assert _completed(context) == []
        context.now = clock.now + 60
        completion.complete(context, waiting, Budget())
        assert _completed(context) == [(1, 1)]


def test_a_newer_attempt_completes_the_steps_of_the_older_one(completion, working, append):
    """The processes of attempt 1 have ended, so its steps do not wait for more records."""
    append(attempt=1, rank=0, world_size=2, records=_records(5))
    run_id = append(attempt=2, rank=0, world_size=1, records=_records(3))
    with working(run_id, projected_attempt=2) as (context, waiting):
        completion.complete(context, waiting, Budget())
        assert _completed(context) == [(1, 5), (2, 3)]
        assert (context.run.last_attempt, context.run.last_step) == (2, 3)


def test_a_budget_ends_a_slice_after_one_step_or_more(completion, working, append):
    """With a clock that is past the end at once, each call completes one step, and reports that more can be done."""
    run_id = append(records=_records(1, 2))
    with working(run_id) as (context, waiting):
        times = iter([0.0, 100.0])
        assert not completion.complete(context, waiting, Budget(clock=lambda: next(times)))
        assert _completed(context) == [(1, 1)]
        assert completion.complete(context, waiting, Budget())
        assert _completed(context) == [(1, 1), (1, 2)]


def test_a_budget_is_spent_after_its_number_of_steps():
    """The bound holds however little time has passed."""
    budget = Budget(clock=lambda: 0.0)
    for _ in range(MAX_STEPS_PER_SLICE):
        assert not budget.is_spent
        budget.spend()
    assert budget.is_spent


def test_a_late_record_corrects_the_stored_step_and_is_not_detected_again(completion, working, append, store):
    """Rank 0 reports after the deadline: its value replaces that of rank 1, and no second event is added."""
    run_id = append(rank=1, world_size=2, records=[{"step": 1, "scalars": {"a": 5.0}}])
    with working(run_id) as (context, waiting):
        context.now += 60
        completion.complete(context, waiting, Budget())
    append(rank=0, world_size=2, records=[{"step": 1, "scalars": {"a": 2.0}}])
    with working(run_id) as (context, waiting):
        assert waiting.first() is None
        LateRecords(Settings()).mend(context, {(1, 1): [context.run.log_end]}, Budget())
        assert context.events == []
    with store.read() as repositories:
        assert repositories.steps.at(run_id, 1) == {"a": 2.0}


def test_the_pace_of_a_run_is_the_median_time_of_its_steps(completion, working, append):
    """Steps at 0, 10, 20 and 90 s: the median of 10, 10 and 70 s is 10 s; stalled after 5 × 10 s or 300 s."""
    times = [0.0, 10.0, 20.0, 90.0]
    records = [{"step": step, "time": 1_000_000.0 + time} for step, time in enumerate(times)]
    run_id = append(records=records)
    with working(run_id) as (context, waiting):
        completion.complete(context, waiting, Budget())
        assert (context.run.step_seconds, context.run.stall_seconds) == (10.0, 300.0)
