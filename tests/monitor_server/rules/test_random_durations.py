"""Rules that count seconds have the alerts of a twin that computes them anew from everything that happened.

Clocks of trainers jump in both directions, ranks are late, runs go back, collectors restart, hand a run over and find
that their clock was days ahead, and rules are changed while they count.
"""

import math
import random
import uuid
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from monitor_server.access.callers import ANYBODY
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.single_rules import create_rule, delete_rule, replace_rule
from monitor_server.rules.definition import read_rule
from monitor_server.settings import Settings
from monitor_server.steady_clock import SteadyClock
from monitor_server.step_processing.ownership import OWNER_SECONDS
from tests.monitor_server.interrupted_stores import crashing
from tests.monitor_server.rules.rule_deletion import delete_rules
from tests.monitor_server.simulated_collectors import SimulatedCollector, random_examples, read_fields
from trainer_hooks import wire

DAY = 86_400.0
CLOCKS_APART = 2.0  # seconds between the clocks of the two collectors
NAMES = ("a", "b", "c")
SETTINGS = Settings(stall_minimum_seconds=1e9, step_deadline_seconds=1e9)
VALUES = (None, None, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0, math.nan)
CONDITIONS = (
    {"condition": "threshold", "operator": ">", "value": 1.0, "for_seconds": 25.0},
    {"condition": "change", "operator": ">", "value": 1.0, "before_seconds": 20.0},
    {"condition": "change", "operator": "<", "value": 0.0, "before_seconds": 20.0, "for_seconds": 15.0},
    {"condition": "absence", "for_seconds": 30.0},
    {"condition": "absence", "for_seconds": 300.0},
)


@dataclass(frozen=True)
class Seen:
    """A step that a rule has seen: by the trainer's clock at ``time``, by the collector's at ``now``."""

    attempt: int
    step: int
    time: float
    now: float
    value: float | None


@dataclass
class RuleTwin:
    """A version of a rule on one run, with all that it has seen."""

    fields: dict
    steps: list = field(default_factory=list)
    readings: list = field(default_factory=list)  # of the collector's clock, each with the number of steps before it
    fired: int | None = None  # the step at which it began to fire; None if it does not
    opened: int = 0
    ended: int = 0  # the number of readings before the run ended last

    def see(self, seen):
        """Evaluate a step."""
        begins = self._begins(len(self.steps), seen)
        if begins and self.fired is not None and self.fired >= seen.step:
            self.fired = None
        self.steps.append(seen)
        self.read_clock(seen.now, is_between=False)
        holds = self._absence_holds() if self.fields["condition"] == "absence" else self._condition_lasts()
        if holds and self.fired is None:
            self.fired, self.opened = seen.step, self.opened + 1
        elif holds is False:
            self.fired = None

    def read_clock(self, now, *, is_between=True):
        """Let the collector look at its clock, perhaps between two steps, where only an absence is noticed."""
        self.readings.append((len(self.steps), now))
        if is_between and self.is_due(now):
            self.fired, self.opened = self.steps[-1].step, self.opened + 1

    def is_due(self, now):
        """Whether the collector's clock makes the rule fire between two steps, or the rule counts from the future."""
        if self.fields["condition"] != "absence" or not self.steps or self.fired is not None:
            return False
        heard_at = self._heard_at()
        return now - heard_at >= self.fields["for_seconds"] or heard_at > now

    def end_run(self):
        """Let the run end, after which nothing is absent until it goes on."""
        self.ended = len(self.readings)
        if self.fields["condition"] == "absence":
            self.fired = None

    def _begins(self, place, seen):
        before = self.steps[place - 1] if place else None
        return before is None or before.attempt != seen.attempt or before.step >= seen.step

    def _since(self):
        """Return the place of the newest step that has the signal, or begins an attempt."""
        found = [place for place, seen in enumerate(self.steps) if seen.value is not None or self._begins(place, seen)]
        return found[-1]

    def _heard_at(self):
        """Return the time from which an absence counts: a clock that was ahead of a later reading does not delay it."""
        since = self._since()
        return min((now for count, now in self.readings[self.ended :] if count > since), default=math.inf)

    def _absence_holds(self):
        newest, since = self.steps[-1], self._since()
        if newest.value is not None:
            return False
        begun = min(seen.time for seen in self.steps[since:])
        return True if newest.time - begun >= self.fields["for_seconds"] else None

    def _condition_lasts(self):
        """Whether the condition has held for the seconds; None if the newest step does not tell."""
        newest = self.steps[-1]
        if newest.value is None:
            return None
        measured = self._measured()
        if measured[-1] is None or math.isnan(measured[-1]):
            return None
        if not self._compares(measured[-1]):
            return False
        times = []
        for place in reversed(range(len(self.steps))):
            if measured[place] is not None:
                if not self._compares(measured[place]):
                    break
                times.append(self.steps[place].time)
            if self._begins(place, self.steps[place]):
                break
        return True if newest.time - min(times) >= self.fields.get("for_seconds", 0.0) else None

    def _compares(self, measured):
        above = self.fields["operator"] == ">"
        return measured > self.fields["value"] if above else measured < self.fields["value"]

    def _measured(self):
        """Return what each step compares with the rule's value; None where there is nothing to compare."""
        if self.fields["condition"] == "threshold":
            return [seen.value for seen in self.steps]
        measured, kept = [], []
        for place, seen in enumerate(self.steps):
            if self._begins(place, seen):
                kept = [each for each in kept if each.step < seen.step]
            if seen.value is None:
                measured.append(None)
                continue
            kept = [each for each in kept if each.time <= seen.time]  # a clock that goes back was ahead before
            old = [each for each in kept if seen.time - each.time >= self.fields["before_seconds"]]
            measured.append(seen.value - old[-1].value if old else None)
            kept = kept[len(old) - 1 :] if old else kept  # the older ones are not kept
            if not math.isnan(seen.value) and (not kept or kept[-1].time < seen.time):
                kept.append(seen)
        return measured


@dataclass
class CountedRun:
    """A run of two ranks, the second of which may be late."""

    id: str
    name: str
    attempt: int = 1
    step: int = 0
    ahead: float = 0.0  # how far the trainer's clock is ahead of the collector's
    has_ended: bool = False
    late: list = field(default_factory=list)  # the records that the second rank has still to send
    complete: list = field(default_factory=list)  # the steps that no rule has seen yet
    twins: dict = field(default_factory=dict)  # by the name of the rule
    opened: int = 0  # by versions of rules that count no more


class CountedRuns:
    """Runs of two collectors whose clocks differ, with rules that count seconds."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock, self.store = random.Random(seed), clock, stores[0]  # noqa: S311 - synthetic telemetry
        stores = stores if stores[0].is_shared else stores[:1]
        self.clocks = [clock, lambda: clock.now - CLOCKS_APART][: len(stores)]
        pairs = zip(stores, self.clocks, strict=True)
        self.collectors = [SimulatedCollector(store, engine, now, SETTINGS) for store, now in pairs]
        self.project = uuid.uuid4().hex[:8]  # the examples share a database
        self.runs = [CountedRun(wire.run_id(self.project, name), name) for name in ("one", "two")]
        self.rules, self.author = {}, Author(caller=ANYBODY, now=0.0)

    def run(self, turns):
        """Do random things, and compare the alerts after each."""
        draw = self.draw
        actions = [self.make_steps] * 6 + [self.pass_time] * 3 + [self.end, self.set_clock_back]
        for name in NAMES:
            self.change_rule(name)
        for _ in range(turns):
            if draw.random() < 0.1:
                self.change_rule(draw.choice(NAMES))
            if draw.random() < 0.1:
                draw.choice(self.collectors).restart()
            self.tick()
            draw.choice(actions)(draw.choice(self.runs))
            self.tick()
            self.check()

    def make_steps(self, run):
        """Record some steps by the trainer's clock, perhaps of an attempt that goes back; a rank may be late."""
        draw, records = self.draw, []
        if run.has_ended or draw.random() < 0.15:
            self.deliver(run)
            run.attempt, run.step, run.has_ended = run.attempt + 1, max(0, run.step - draw.choice((0, 1, 3))), False
        for _ in range(draw.choice((1, 1, 3))):
            run.step += 1
            self.clock.now += draw.choice((0.0, 5.0, 10.0, 10.0))
            if draw.random() < 0.15:
                self.set_clock(run)
            value, time = draw.choice(VALUES), self.clock.now + run.ahead
            scalars = {} if value is None else {"s": value}
            records.append({"step": run.step, "seq": uuid.uuid4().int % 2**40, "time": time, "scalars": scalars})
        self.send(run, rank=0, records=records)
        run.late += records
        if draw.random() < 0.7:
            self.deliver(run)
        else:
            self.let_project(run)

    def deliver(self, run):
        """Send the records of the second rank, which complete their steps."""
        if run.late:
            run.late, late = [], run.late
            self.send(run, rank=1, records=[record | {"scalars": {}} for record in late])
            run.complete = late
            self.let_project(run)

    def send(self, run, **fields):
        """Append a batch to the log of a run."""
        fields = {"run": run.name, "project": self.project, "attempt": run.attempt, "world_size": 2} | fields
        valid = read_fields(fields, settings=SETTINGS, now=self.clock.now)
        assert self.draw.choice(self.collectors).append([valid]) is not None

    def let_project(self, run):
        """Project a run to its end by any collector, which may crash, and show its rules the same."""
        self.clock.now += OWNER_SECONDS + 2 * CLOCKS_APART  # another collector may take the run
        place = self.draw.randrange(len(self.collectors))
        collector, now = self.collectors[place], self.clocks[place]()
        for _ in range(100):
            store = crashing(collector.store) if self.draw.random() < 0.1 else collector.store
            if not collector.project(run.id, store=store, is_smallest=self.draw.random() < 0.5):
                break
        for record in run.complete:
            value = record["scalars"].get("s")
            for twin in run.twins.values():
                twin.see(Seen(run.attempt, record["step"], record["time"], now, value))
        run.complete = []
        for twin in run.twins.values():
            if run.has_ended:
                twin.end_run()
            else:
                twin.read_clock(now)

    def pass_time(self, _run):
        """Let time pass, in which nobody sends."""
        self.clock.now += self.draw.choice((10.0, 31.0, 301.0))

    def set_clock(self, run):
        """Set the clock of the trainer: it is ahead or behind, by seconds or by days, or right."""
        run.ahead = 0.0 if run.ahead else self.draw.choice((-7.0, 7.0, 3 * DAY, 3 * DAY, -3 * DAY))

    def set_clock_back(self, _run):
        """Find at the start of the only collector that the clock was days ahead; servers' clocks are trusted."""
        if self.store.is_shared or self.clock.now < 8 * DAY:
            return
        self.clock.now -= 4 * DAY
        self.clock.now = SteadyClock.of(self.store, wall=self.clock, monotonic=lambda: 0.0)()
        self.collectors[0].restart()

    def end(self, run):
        """Let a run finish."""
        if not run.has_ended and run.step:
            self.deliver(run)
            self.send(run, rank=0, records=[], end="finished")
            run.has_ended = True
            self.let_project(run)

    def change_rule(self, name):
        """Make, change or delete a rule while it counts."""
        fields = self.draw.choice(CONDITIONS)
        rule = read_rule({"name": name, "signal": "s", "project": self.project} | fields)
        with self.store.write() as repositories:
            if name not in self.rules:
                self.rules[name] = create_rule(repositories, rule, author=self.author).id, fields
            elif self.draw.random() < 0.2:
                delete_rule(repositories, self.rules.pop(name)[0], author=self.author)
            elif self.rules[name][1] == fields:
                return
            else:
                replace_rule(repositories, self.rules[name][0], rule, author=self.author)
                self.rules[name] = self.rules[name][0], fields
        for run in self.runs:
            before = run.twins.pop(name, None)
            run.opened += 0 if before is None else before.opened
            if name in self.rules:
                run.twins[name] = RuleTwin(fields)

    def tick(self):
        """Let each collector read the rules and the clock, and project the runs that are due."""
        by_id = {run.id: run for run in self.runs}
        while True:
            due = set()
            for collector in self.collectors:  # all read a change before any of them projects
                with collector.store.read() as repositories:
                    due |= set(collector.projection.rules.due_runs(repositories, now=self.clock.now))
            if not by_id.keys() & due:
                return
            for run_id in sorted(by_id.keys() & due):
                self.let_project(by_id[run_id])

    def check(self):
        """Compare the alerts of each run with the twins that fire, and none of these waits for the clock."""
        with self.store.read() as repositories:
            for run in self.runs:
                rows = repositories.alerts.page(limit=1_000, run_id=run.id)
                firing = {f"rule:{name}": twin.fired for name, twin in run.twins.items() if twin.fired is not None}
                assert {row["kind"]: row["opened_step"] for row in rows if row["state"] != "resolved"} == firing
                assert len(rows) == run.opened + sum(twin.opened for twin in run.twins.values())
                assert run.has_ended or not any(twin.is_due(self.clock.now) for twin in run.twins.values())


@random_examples(1)
@given(seed=st.integers(0, 2**32 - 1))
def test_rules_that_count_seconds_have_the_alerts_of_their_twins(two_stores, scripted, clock, seed):
    """This holds for any values, clocks, late ranks, attempts, crashes, collectors and changes of rules."""
    clock.now += 10 * DAY
    counted = CountedRuns(seed, two_stores, scripted, clock)
    try:
        counted.run(25)
    finally:
        delete_rules(counted.store, counted.rules, counted.author)
