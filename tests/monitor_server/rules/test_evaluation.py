"""Rules while a run is projected, directly on a store: live evaluation, crashes, changes of rules, and the dry run."""

import dataclasses
import itertools

import pytest
import sqlalchemy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor_server.access.callers import ANYBODY
from monitor_server.errors import RuleConflict
from monitor_server.ingest.reset import reset_run
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.rule_sets import apply_rules
from monitor_server.rules.administration.single_rules import create_rule, delete_rule, replace_rule
from monitor_server.rules.definition import MAX_COMPARISONS, read_rule
from monitor_server.rules.dry_run import dry_run
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.rules.known_rules import KnownRules
from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from tests.monitor_server.interrupted_stores import crashing
from tests.store_connections import current_connection
from trainer_hooks import wire

NUMBERS = itertools.count()


class Bench:
    """Rules, runs and projections on one store."""

    def __init__(self, store, append, engine, clock):
        self.store, self.append, self.engine, self.clock = store, append, engine, clock
        self.project = f"p{next(NUMBERS)}"
        self.author = Author(caller=ANYBODY, now=0.0)

    def projection(self):
        """Return a projection with its own memory, like that of a collector that has just started."""
        known = KnownRules()
        with self.store.read() as repositories:
            known.refresh(repositories)
        return Projection(Tracker(self.engine, rules=RuleTracker(known)), settings=Settings(), clock=self.clock)

    def create(self, **fields):
        """Make a rule of the project."""
        with self.store.write() as repositories:
            return create_rule(repositories, self.rule(**fields), author=self.author)

    def rule(self, **fields):
        """Return a rule of the project, of a threshold unless the fields say otherwise."""
        document = {"name": "r", "condition": "threshold", "signal": "s", "project": self.project}
        if fields.get("condition") != "absence":
            document |= {"operator": ">", "value": 1.0}
        return read_rule(document | fields)

    def step(self, number, *, run="r", attempt=1, **scalars):
        """Append a step with the time of the clock, without projecting it."""
        record = {"step": number, "time": self.clock.now, "scalars": scalars}
        return self.append(run=run, project=self.project, attempt=attempt, records=[record])

    def episodes(self, run_id, kind="rule:r"):
        """Return the steps at which the alerts of a run opened and were resolved."""
        with self.store.read() as repositories:
            rows = repositories.alerts.page(limit=1000, run_id=run_id)
        return [(row["opened_step"], row["resolved_step"]) for row in reversed(rows) if row["kind"] == kind]

    def due_at(self, run_id):
        """Return when the clock makes a rule of a run fire, or None."""
        with self.store.read() as repositories:
            saved = repositories.rules.load_states(run_id)
        return None if saved is None else saved.due_at


@pytest.fixture
def bench(store, append, scripted, clock):
    return Bench(store, append, scripted, clock)


def crash(bench, projection, run_id):
    """Project a slice that is computed and written, and never committed."""
    with pytest.raises(ZeroDivisionError):
        projection.project(crashing(bench.store), run_id)
    projection.forget(run_id)


VALUES = st.sampled_from([None, None, 0.0, 1.0, 2.0, 3.0, -1.0, float("nan"), float("inf"), float("-inf")])
DURATIONS = st.sampled_from([{}, {"for_steps": 0}, {"for_steps": 2}, {"for_seconds": 15.0}])
OPERATORS = st.sampled_from(
    [{"operator": name, "value": 1.0} for name in (">", ">=", "<", "<=", "!=", "==")]
    + [{"operator": "not_finite", "value": None}]
)
MEASURES = st.sampled_from([{"measure": name} for name in ("difference", "relative", "ratio")])
CONDITIONS = st.one_of(
    st.just({"condition": "threshold"}),
    st.builds(
        lambda measure, distance: {"condition": "change"} | measure | distance,
        MEASURES,
        st.sampled_from([{"before_steps": 1}, {"before_steps": 3}, {"before_seconds": 20.0}]),
    ),
    st.builds(lambda measure: {"condition": "comparison"} | measure, MEASURES),
)
RULES = st.one_of(
    st.builds(lambda condition, order, duration: condition | order | duration, CONDITIONS, OPERATORS, DURATIONS),
    st.sampled_from([{"condition": "absence"} | each for each in ({"for_steps": 2}, {"for_seconds": 25.0})]),
)
# The event before a step: none, another collector takes the run, or a slice is lost in a crash.
EVENTS = st.sampled_from(["", "", "restart", "crash", "attempt", "rewind", "end", "wait"])
STEPS = st.lists(st.tuples(VALUES, VALUES, EVENTS, st.sampled_from([1, 1, 3])), min_size=1, max_size=14)


def record_other_run(bench, steps):
    """Project the run that a comparison reads, which has made its steps before, and return its id."""
    values = {number: other for number, (_, other, _, _) in enumerate(steps) if other is not None} or {10_000: 1.0}
    for number, other in values.items():
        other_id = bench.step(number, run="other", s=wire.spell_non_finite(other))
    projection = bench.projection()
    while projection.project(bench.store, other_id).has_more:
        pass
    return other_id


def run_live(bench, steps, *, is_by_clock):
    """Record steps one by one and project them, with all that happens in between; return the run's id."""
    projection = bench.projection()
    attempt, number, run_id = 1, -1, None
    for value, _, event, stride in steps:
        if event == "end" and run_id is not None and not is_by_clock:  # the dry run knows no end of an attempt
            bench.append(project=bench.project, attempt=attempt, records=[], end="finished")
            projection.project(bench.store, run_id)
        attempt += event in ("attempt", "rewind", "end")
        number = max(0, number - 2) if event == "rewind" else number + stride
        bench.clock.now += 60.0 if event == "wait" else 10.0
        due = None if run_id is None else bench.due_at(run_id)
        if due is not None and due <= bench.clock.now:
            bench.clock.now, later = due, bench.clock.now
            projection.project(bench.store, run_id)
            bench.clock.now = later
        scalars = {} if value is None else {"s": wire.spell_non_finite(value)}
        run_id = bench.step(number, attempt=attempt, **scalars)
        if event == "restart":
            projection = bench.projection()
        if event == "crash":
            crash(bench, projection, run_id)
        if event != "wait" or is_by_clock:  # else two steps are projected in one slice, and no clock looks in between
            projection.project(bench.store, run_id)
    projection.project(bench.store, run_id)
    return run_id


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(  # the steps that are repeated after a rewind make the rule fire again
    stated={"condition": "threshold", "operator": ">", "value": 1.0},
    steps=[(2.0, None, "attempt", 3), (2.0, None, "rewind", 1)],
)
@example(  # the same where the run ends with an absence that only the clock notices
    stated={"condition": "absence", "for_seconds": 25.0},
    steps=[(2.0, None, "", 1), (None, None, "wait", 1), (None, None, "rewind", 1), (None, None, "wait", 1)],
)
@given(stated=RULES, steps=STEPS)
def test_live_evaluation_and_the_dry_run_fire_at_the_same_steps(bench, stated, steps):
    """This holds for any rule, values, attempts, slices, crashes and collectors."""
    bench.project = f"p{next(NUMBERS)}"
    if stated["condition"] == "comparison":
        stated = stated | {"other_run_id": record_other_run(bench, steps)}
    bench.create(**stated)
    run_id = run_live(bench, steps, is_by_clock=stated["condition"] == "absence")
    with bench.store.read() as repositories:
        tried = dry_run(repositories, run_id, bench.rule(**stated))
    assert bench.episodes(run_id) == [(each.fired_step, each.resolved_step) for each in tried.episodes]
    assert tried.episode_count == len(tried.episodes)
    assert tried.steps == len(steps)


def test_a_dry_run_is_bounded_in_steps_and_in_time(bench):
    """Its answer states that it is not complete, and the steps that it has read."""
    for attempt, step in [(1, step) for step in range(1, 6)] + [(2, step) for step in range(2, 6)]:
        run_id = bench.step(step, attempt=attempt, s=2.0)
    projection = bench.projection()
    while projection.project(bench.store, run_id).has_more:
        pass
    with bench.store.read() as repositories:
        few = dry_run(repositories, run_id, bench.rule(), most_steps=3)
        late = dry_run(repositories, run_id, bench.rule(), clock=iter([0.0, 1e9]).__next__)
        of_nobody = dry_run(repositories, "nobody", bench.rule())
        rewound = dry_run(repositories, run_id, bench.rule(), most_steps=6)
    assert (few.steps, few.last_step, few.is_complete, few.episode_count) == (3, 3, False, 1)
    assert (late.steps, late.last_attempt, late.last_step, late.is_complete) == (0, None, None, False)
    # The second attempt was read to its step 2 only, below the last step of the first.
    assert (rewound.steps, rewound.last_attempt, rewound.last_step, rewound.is_complete) == (6, 2, 2, False)
    assert (of_nobody.steps, of_nobody.is_complete) == (0, True)


def test_a_dry_run_of_a_comparison_reads_no_more_of_the_other_run_than_its_own_steps(bench):
    """The other run has many steps between two of the run, and its values are those of its newest attempt."""
    other_id = None
    for number in range(40):
        other_id = bench.step(number, run="other", s=5.0)
    bench.step(39, run="other", attempt=2, s=0.0)
    bench.step(0, s=2.0)
    run_id = bench.step(39, s=2.0)
    projection = bench.projection()
    for each in (other_id, run_id):
        while projection.project(bench.store, each).has_more:
            pass
    with bench.store.read() as repositories:
        rows, read = [], repositories.steps.values_at

        def values_at(*asked):
            found = read(*asked)
            rows.append(found)
            return found

        repositories.steps.values_at = values_at
        repositories.series = None  # whole signals are not read
        tried = dry_run(repositories, run_id, bench.rule(condition="comparison", other_run_id=other_id))
    assert rows == [{0: 5.0, 39: 0.0}]
    assert [(each.fired_step, each.resolved_step) for each in tried.episodes] == [(39, None)]


def test_a_step_reads_a_bounded_number_of_other_runs(bench):
    """An older version may have stored more comparisons; those beyond the bound have no data."""
    other_ids = [bench.step(1, run=f"other{number}", s=0.0) for number in range(MAX_COMPARISONS + 1)]
    for each in other_ids:
        bench.projection().project(bench.store, each)
    for number, other_id in enumerate(other_ids[:-1]):
        bench.create(name=f"r{number}", condition="comparison", other_run_id=other_id)
    with pytest.raises(RuleConflict, match=f"rule 'over': at most {MAX_COMPARISONS} comparisons"):
        bench.create(name="over", condition="comparison", other_run_id=other_ids[-1])
    stored = bench.create(name="over")
    definition = bench.rule(name="over", condition="comparison", other_run_id=other_ids[-1])
    with bench.store.write() as repositories:
        changed = {**stored.definition, **definition.model_dump(mode="json", exclude_none=True)}
        repositories.rules.replace([dataclasses.replace(stored, definition=changed)])
    run_id = bench.step(1, s=2.0)
    bench.projection().project(bench.store, run_id)
    fired = [number for number in range(MAX_COMPARISONS) if bench.episodes(run_id, f"rule:r{number}")]
    assert fired == list(range(MAX_COMPARISONS))
    assert bench.episodes(run_id, "rule:over") == []


def test_a_change_concerns_ended_runs_only_where_an_alert_of_a_rule_is_open(bench, clock):
    """The others keep their old states, so that a change costs no write for each run that ever was."""
    stored = bench.create()
    runs = {}
    for name, value in (("quiet", 0.0), ("firing", 2.0), ("running", 0.0)):
        runs[name] = bench.step(1, run=name, s=value)
        bench.projection().project(bench.store, runs[name])
    for name in ("quiet", "firing"):
        bench.append(run=name, project=bench.project, attempt=1, records=[], end="finished")
        bench.projection().project(bench.store, runs[name])
    projection = bench.projection()
    with bench.store.write() as repositories:
        delete_rule(repositories, stored.id, author=bench.author)
    with bench.store.read() as repositories:
        due = projection.rules.due_runs(repositories, now=clock.now)
    assert sorted(due) == sorted([runs["firing"], runs["running"]])
    projection.project(bench.store, runs["firing"])
    assert bench.episodes(runs["firing"]) == [(1, 1)]


def test_a_change_that_changes_nothing_concerns_no_run(bench, clock):
    """The same PUT and the same apply keep the revision, so no state is written again."""
    stored = bench.create()
    with bench.store.write() as repositories:
        apply_rules(repositories, "team", [bench.rule(name="applied")], author=bench.author)
    run_id = bench.step(1, s=2.0)
    projection = bench.projection()
    projection.project(bench.store, run_id)
    with bench.store.write() as repositories:
        before = repositories.rules.revision()
        replace_rule(repositories, stored.id, bench.rule(), author=bench.author)
        apply_rules(repositories, "team", [bench.rule(name="applied")], author=bench.author)
    with bench.store.read() as repositories:
        assert repositories.rules.revision() == before
        assert projection.rules.due_runs(repositories, now=clock.now) == []
    with bench.store.write() as repositories:
        apply_rules(repositories, "team", [bench.rule(name="applied", value=3.0)], author=bench.author)
        assert repositories.rules.revision() == before + 1


def test_a_file_of_many_rules_takes_as_many_statements_as_one_of_few(bench):
    """On a database across a network each statement delays all other writes of the collector."""

    def statements(count, **fields):
        counted = []
        with bench.store.write() as repositories:
            sqlalchemy.event.listen(
                current_connection(), "before_cursor_execute", lambda *args: counted.append(args[2])
            )
            wanted = [bench.rule(name=f"r{number}", **fields) for number in range(count)]
            apply_rules(repositories, "team", wanted, author=bench.author)
        return len(counted)

    few = [statements(3), statements(3, value=2.0), statements(1)]
    assert few == [statements(60), statements(60, value=3.0), statements(1)]
    with bench.store.read() as repositories:
        assert [rule.definition["value"] for rule in repositories.rules.of_set("team")] == [1.0]


def test_an_alert_outlives_a_reset_until_a_step_shows_that_its_condition_has_ended(bench):
    """Like alerts of the detectors, it stays while the run is silent; an unobserved signal does not resolve it."""
    bench.create(for_steps=1)
    projection = bench.projection()
    bench.step(1, s=2.0)
    run_id = bench.step(2, s=2.0)
    projection.project(bench.store, run_id)
    bench.step(3, attempt=2, other=1.0)
    projection.project(bench.store, run_id)
    with bench.store.write() as repositories:
        reset_run(repositories, run_id, attempt=1, now=1.0)
    assert bench.episodes(run_id) == [(2, None)]
    with bench.store.read() as repositories:
        assert projection.rules.due_runs(repositories, now=0.0) == [run_id]
    projection.project(bench.store, run_id)
    for number, scalars in ((4, {"other": 1.0}), (5, {"s": 2.0})):
        bench.step(number, **scalars)
        bench.projection().project(bench.store, run_id)
        assert bench.episodes(run_id) == [(2, None)]
    bench.step(6, s=0.0)
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(2, 6)]


def test_a_rule_that_is_deleted_as_its_run_is_reset_resolves_its_alert(bench):
    """Nothing else would look at the silent run."""
    stored = bench.create()
    projection = bench.projection()
    run_id = bench.step(1, s=2.0)
    projection.project(bench.store, run_id)
    bench.step(2, attempt=2, s=2.0)
    projection.project(bench.store, run_id)
    with bench.store.write() as repositories:
        reset_run(repositories, run_id, attempt=1, now=1.0)
        delete_rule(repositories, stored.id, author=bench.author)
    with bench.store.read() as repositories:
        assert projection.rules.due_runs(repositories, now=0.0) == [run_id]
    projection.project(bench.store, run_id)
    assert [opened for opened, resolved in bench.episodes(run_id) if resolved is None] == []


def test_a_crash_repeats_nothing_and_skips_nothing(bench):
    """A slice that is rolled back leaves neither an alert nor a state; the next one fires at the same step."""
    bench.create(for_steps=1)
    projection = bench.projection()
    run_id = bench.step(1, s=2.0)
    projection.project(bench.store, run_id)
    bench.step(2, s=2.0)
    crash(bench, projection, run_id)
    assert bench.episodes(run_id) == []
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(2, None)]


def test_a_rule_that_is_deleted_resolves_its_alert_on_a_silent_run(bench, clock):
    """The state follows older rules than those in force, so that the run is looked at without a step."""
    stored = bench.create()
    projection = bench.projection()
    run_id = bench.step(1, s=2.0)
    projection.project(bench.store, run_id)
    with bench.store.write() as repositories:
        delete_rule(repositories, stored.id, author=bench.author)
    with bench.store.read() as repositories:
        assert projection.rules.due_runs(repositories, now=clock.now) == [run_id]
    projection.project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, 1)]
    with bench.store.read() as repositories:
        assert repositories.rules.load_states(run_id) is None
        assert projection.rules.due_runs(repositories, now=clock.now) == []


def test_a_rule_that_is_changed_begins_anew(bench):
    """Its alert is resolved, and opens again where the new condition holds for as long as it says."""
    stored = bench.create()
    run_id = bench.step(1, s=2.0)
    bench.projection().project(bench.store, run_id)
    with bench.store.write() as repositories:
        replace_rule(repositories, stored.id, bench.rule(value=1.5, for_steps=1), author=bench.author)
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, 1)]
    for step in (2, 3):
        bench.step(step, s=2.0)
        bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, 1), (3, None)]


def test_a_collector_that_has_not_heard_of_a_change_reads_it_first(bench):
    """Another collector has evaluated a newer rule; this one does not resolve its alert."""
    late = bench.projection()
    bench.create(name="other", value=100.0)
    late.rules.known.refresh = lambda repositories, refresh=late.rules.known.refresh: refresh(repositories)
    with bench.store.read() as repositories:
        late.rules.known.refresh(repositories)
    run_id = bench.step(1, s=2.0)
    bench.create()
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, None)]
    bench.step(2, s=2.0)
    late.project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, None)]


def test_a_specific_rule_that_is_switched_off_switches_the_general_one_off(bench):
    """Once it is deleted, the general rule counts again."""
    bench.create()
    ids = [bench.step(1, run=name, s=2.0) for name in ("one", "two")]
    stored = bench.create(run_id=ids[0], enabled=False)
    for run_id in ids:
        bench.projection().project(bench.store, run_id)
    assert [bench.episodes(run_id) for run_id in ids] == [[], [(1, None)]]
    with bench.store.write() as repositories:
        delete_rule(repositories, stored.id, author=bench.author)
    bench.step(2, run="one", s=2.0)
    bench.projection().project(bench.store, ids[0])
    assert bench.episodes(ids[0]) == [(2, None)]


def test_the_most_specific_rule_of_a_name_counts(bench):
    """A rule of the run replaces one of the project, and that one of all projects."""
    run_id = bench.step(1, s=2.0)
    bench.create(project=None, value=0.0)
    bench.create(value=5.0)
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == []
    with bench.store.write() as repositories:
        of_run = bench.rule(run_id=run_id, value=1.0)
        create_rule(repositories, of_run, author=bench.author)
    bench.step(2, s=2.0)
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(2, None)]


def test_absence_by_time_is_found_by_the_clock_and_ends_with_the_run(bench, clock):
    """No step is needed; the alert has the newest step, and is not marked as without data."""
    bench.create(condition="absence", for_seconds=40.0)
    projection = bench.projection()
    run_id = bench.step(3, s=1.0)
    projection.project(bench.store, run_id)
    due = bench.due_at(run_id)
    assert due == clock.now + 40.0
    with bench.store.read() as repositories:
        assert projection.rules.due_runs(repositories, now=due - 1.0) == []
        assert projection.rules.due_runs(repositories, now=due) == [run_id]
    clock.now = due
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(3, None)]
    clock.now += 10_000.0  # by then the run is lost, and its other alerts have no data
    bench.projection().project(bench.store, run_id)
    with bench.store.read() as repositories:
        (found,) = [each for each in repositories.alerts.firing(run_id) if each.kind == "rule:r"]
    assert found.stage == "firing"
    assert bench.due_at(run_id) is None
    bench.append(project=bench.project, attempt=1, records=[], end="finished")
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(3, 3)]


def test_a_signal_is_not_absent_while_steps_that_have_it_wait_to_be_projected(bench, clock):
    """The collector was away for a minute: its first slice ends before the step that has the signal."""
    bench.create(condition="absence", for_seconds=30.0)
    run_id, projection, begun = bench.step(1, s=1.0), bench.projection(), clock.now
    projection.project(bench.store, run_id)
    clock.now += 60.0
    for number, scalars in ((2, {"other": 1.0}), (3, {"s": 1.0})):
        records = [{"step": number, "time": begun + number, "scalars": scalars}]
        bench.append(project=bench.project, attempt=1, records=records)
    while projection.project(bench.store, run_id, is_smallest=True).has_more:
        pass
    assert bench.episodes(run_id) == []
    clock.now += 30.0
    projection.project(bench.store, run_id)
    assert bench.episodes(run_id) == [(3, None)]


def test_an_alert_of_a_comparison_whose_other_run_is_deleted_is_resolved_with_the_reason(bench):
    """Nothing would ever show that the condition has ended. A step that the other run does not have changes nothing."""
    other_id = bench.step(1, run="other", s=0.0)
    bench.step(2, run="other", s=0.0)
    projection = bench.projection()
    projection.project(bench.store, other_id)
    bench.create(condition="comparison", other_run_id=other_id)
    projection = bench.projection()
    run_id = bench.step(1, s=2.0)
    bench.step(3, s=2.0)
    projection.project(bench.store, run_id)
    with bench.store.write() as repositories:
        repositories.deletion.begin_deletion([other_id], now=1.0)
    assert bench.episodes(run_id) == [(1, None)]
    for number in (4, 5):
        bench.step(number, s=2.0)
        projection.project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, 4)]
    with bench.store.read() as repositories:
        (newest, *_) = repositories.alert_history.page(run_id, "rule:r", limit=10)
    assert newest["why"] == "the run that the rule compares with is deleted"


def test_two_runs_may_be_compared_with_each_other(bench):
    """There is no circle: each is compared with the stored steps of the other, and none with itself."""
    first, second = (bench.step(1, run=name, s=value) for name, value in (("a", 0.0), ("b", 5.0)))
    for run_id, other_id, name in ((first, second, "r"), (second, first, "q")):
        bench.create(name=name, condition="comparison", other_run_id=other_id, operator="!=", value=0.0)
        assert run_id != other_id
    projection = bench.projection()
    for run_id in (first, second, first, second):
        projection.project(bench.store, run_id)
    bench.step(2, run="a", s=0.0)
    bench.step(2, run="b", s=5.0)
    projection.project(bench.store, first)
    projection.project(bench.store, second)
    assert bench.episodes(first, "rule:r") == []  # when it made step 1 and step 2, the other had not
    assert bench.episodes(second, "rule:q") == [(1, None)]


def test_a_damaged_state_begins_anew(bench):
    """The log reports it, and the run goes on."""
    bench.create()
    run_id = bench.step(1, s=2.0)
    bench.projection().project(bench.store, run_id)
    with bench.store.write() as repositories:
        saved = repositories.rules.load_states(run_id)
        damaged = type(saved)(rules_revision=saved.rules_revision, due_at=None, state=b"\xc1")
        repositories.rules.save_states(run_id, damaged, is_first=False)
    bench.step(2, s=2.0)
    bench.projection().project(bench.store, run_id)
    assert bench.episodes(run_id) == [(1, None)]


def test_a_run_without_rules_has_no_state(bench):
    """Rules of other projects add no state."""
    bench.create(project="elsewhere", name=bench.project)
    run_id = bench.step(1, s=2.0)
    bench.projection().project(bench.store, run_id)
    with bench.store.read() as repositories:
        assert repositories.rules.load_states(run_id) is None
