"""Rules that are made, changed, switched off and deleted at random have the alerts of a plain evaluation."""

import math
import random
import uuid
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from monitor_server.access.callers import ANYBODY
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.single_rules import create_rule, delete_rule, replace_rule
from monitor_server.rules.definition import read_rule
from monitor_server.settings import Settings
from tests.monitor_server.interrupted_stores import crashing
from tests.monitor_server.rules.rule_deletion import delete_rules
from tests.monitor_server.simulated_collectors import SimulatedCollector, random_examples
from trainer_hooks import wire

SETTINGS = Settings(stall_minimum_seconds=1e9)
VALUES = (None, 0.0, 0.0, 2.0, 2.0, 4.0, math.nan)


@dataclass
class PlainRule:
    """A threshold rule on one run, evaluated as the documentation states it."""

    value: float
    for_steps: int
    since: int | None = None
    fired: int | None = None  # the step at which it began to fire; None if it does not
    opened: int = 0

    def begin_attempt(self, step):
        """Restart the duration; an alert that began at a repeated step ends."""
        self.since = None
        if self.fired is not None and self.fired >= step:
            self.fired = None

    def see(self, step, value):
        """Evaluate a step."""
        if value is None:
            return
        if not value > self.value:
            self.since = None
            if not math.isnan(value):
                self.fired = None
            return
        self.since = step if self.since is None else self.since
        if self.fired is None and step - self.since >= self.for_steps:
            self.fired, self.opened = step, self.opened + 1


@dataclass
class RuledRun:
    """A run with the rules that apply to it, by id and version."""

    id: str
    name: str
    project: str
    attempt: int = 1
    step: int = 0
    has_ended: bool = False
    rules: dict = field(default_factory=dict)
    opened: int = 0  # by rules that no longer apply


class RuledRuns:
    """Runs of two collectors, whose rules change all the time."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock, self.store = random.Random(seed), clock, stores[0]  # noqa: S311 - synthetic telemetry
        stores = stores if stores[0].is_shared else stores[:1]
        self.collectors = [SimulatedCollector(store, engine, clock, SETTINGS) for store in stores]
        unique = uuid.uuid4().hex[:8]  # the examples share a database
        self.projects, self.names = [f"p {unique}", f"q {unique}"], [f"a-{unique}", f"b-{unique}"]
        self.runs = []
        for number in range(3):
            name, project = f"run {number}", self.projects[number % 2]
            self.runs.append(RuledRun(wire.run_id(project, name), name, project))
        self.rules, self.author = {}, Author(caller=ANYBODY, now=0.0)

    def run(self, turns):
        """Do random things, and compare the alerts after each."""
        for run in self.runs:
            self.make_step(run)
        for _ in range(turns):
            action = self.draw.choice((self.make_step, self.make_step, self.make_step, self.change_rules, self.end))
            action(self.draw.choice(self.runs))
            if self.draw.random() < 0.1:
                self.draw.choice(self.collectors).restart()
            self.tick()
            self.check()

    def make_step(self, run):
        """Record some steps of a run, perhaps of an attempt that goes back, and project them."""
        draw, records = self.draw, []
        begins = run.has_ended or draw.random() < 0.25
        if begins:
            run.attempt, run.step, run.has_ended = run.attempt + 1, max(0, run.step - draw.choice((0, 1, 1, 3))), False
        for _ in range(draw.choice((1, 1, 3))):
            run.step, value = run.step + 1, draw.choice(VALUES)
            scalars = {} if value is None else {"s": value}
            records.append({"step": run.step, "seq": uuid.uuid4().int % 2**40, "time": 1e6, "scalars": scalars})
            for rule in run.rules.values():
                if begins:
                    rule.begin_attempt(run.step)
                rule.see(run.step, value)
            begins = False
        self.send(run, records=records)

    def send(self, run, **fields):
        """Append a batch and project the run."""
        body = {"schema_version": wire.SCHEMA_VERSION, "run": run.name, "project": run.project, "attempt": run.attempt}
        now = self.clock.now
        valid = read_batch(
            wire.encode(body | {"records": []} | fields),
            media_type=wire.MSGPACK,
            encoding="",
            settings=SETTINGS,
            now=now,
        )
        assert self.draw.choice(self.collectors).append([valid]) is not None
        self.project(run.id)

    def project(self, run_id):
        """Project a run to its end, in slices of any size, by any collector, which may crash."""
        for _ in range(100):
            collector = self.draw.choice(self.collectors)
            store = crashing(collector.store) if self.draw.random() < 0.1 else collector.store
            has_more = collector.project(run_id, store=store, is_smallest=self.draw.random() < 0.5)
            if has_more is False:
                return
            self.clock.now += 10.0 * (has_more is None)  # another collector owns the run
        raise AssertionError("the run was not projected")

    def end(self, run):
        """Let a run finish; its alerts stay."""
        if not run.has_ended:
            self.send(run, end="finished")
            run.has_ended = True

    def change_rules(self, run):
        """Make, change, switch off or delete a rule of all projects, of a project or of a run."""
        draw = self.draw
        scope = draw.choice(({}, {"project": run.project}, {"project": run.project, "run_id": run.id}))
        name = draw.choice(self.names)
        place = name, scope.get("project"), scope.get("run_id")
        fields = {"value": draw.choice((1.0, 3.0)), "for_steps": draw.choice((0, 0, 1)), "enabled": draw.random() < 0.8}
        document = {"name": name, "condition": "threshold", "signal": "s", "operator": ">"} | fields | scope
        rule = read_rule(document)
        with self.store.write() as repositories:
            if place not in self.rules:
                self.rules[place] = create_rule(repositories, rule, author=self.author).id, rule
                return
            id_, _ = self.rules.pop(place)
            if draw.random() < 0.3:
                delete_rule(repositories, id_, author=self.author)
            else:
                replace_rule(repositories, id_, rule, author=self.author)
                self.rules[place] = id_, rule

    def tick(self):
        """Let each collector read the rules, and look at the runs that a change concerns."""
        for collector in self.collectors:
            with collector.store.read() as repositories:
                due = collector.projection.rules.due_runs(repositories, now=self.clock.now)
            for run_id in due:
                self.project(run_id)
        with self.store.read() as repositories:
            versions = {stored.id: stored.version for stored in repositories.rules.all()}
        for run in self.runs:
            # The most specific rule of a name comes last.
            places = sorted(self.rules, key=lambda place: (place[2] is not None, place[1] is not None))
            wanted = {
                name: self.rules[name, project, run_id]
                for name, project, run_id in places
                if run_id in (None, run.id) and project in (None, run.project)
            }
            wanted = {name: stated for name, stated in wanted.items() if stated[1].enabled}
            before, run.rules = run.rules, {}
            for name, (id_, rule) in wanted.items():
                key = name, id_, versions[id_]
                run.rules[key] = before.pop(key, None) or PlainRule(rule.value, rule.for_steps)
            run.opened += sum(rule.opened for rule in before.values())

    def check(self):
        """Compare the alerts of each run with the rules that fire."""
        with self.store.read() as repositories:
            for run in self.runs:
                rows = repositories.alerts.page(limit=1_000, run_id=run.id)
                firing = {
                    f"rule:{name}": rule.fired for (name, _, _), rule in run.rules.items() if rule.fired is not None
                }
                assert {row["kind"]: row["opened_step"] for row in rows if row["state"] != "resolved"} == firing
                assert len(rows) == run.opened + sum(rule.opened for rule in run.rules.values())


@random_examples(1)
@given(seed=st.integers(0, 2**32 - 1))
def test_rules_that_change_at_random_have_the_alerts_of_a_plain_evaluation(two_stores, scripted, clock, seed):
    """This holds for any values, attempts, slices, crashes, collectors and changes of rules."""
    ruled = RuledRuns(seed, two_stores, scripted, clock)
    try:
        ruled.run(25)
    finally:
        delete_rules(ruled.store, ruled.rules, ruled.author)
