"""A run that two collectors receive and project with crashes, and its twin that one does without any trouble."""

import random
import uuid

import msgspec

from monitor_server.settings import Settings
from tests.monitor_server.simulated_collectors import (
    SimulatedCollector,
    SimulatedTrainer,
    project_some,
    project_to_end,
)
from trainer_hooks import wire

DEADLINE = 10_000.0
SETTINGS = Settings(step_deadline_seconds=DEADLINE, stall_minimum_seconds=1e9, max_waiting_steps=12)
ALERT = ("kind", "severity", "state", "opened_step", "severity_step", "last_step", "resolved_step")


class Comparison:
    """A run that two collectors store and project, and its twin that one collector does without any trouble."""

    settings = SETTINGS

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock = random.Random(seed), clock  # noqa: S311 - synthetic telemetry
        self.collectors = [SimulatedCollector(store, engine, clock, self.settings) for store in stores]
        self.whole = SimulatedCollector(stores[0], engine, clock, self.settings)
        self.trainer, self.stored = SimulatedTrainer(self.draw), set()
        name = uuid.uuid4().hex
        self.names = f"cut-{name}", f"whole-{name}"
        self.cut_id, self.whole_id = (wire.run_id("default", each) for each in self.names)

    def run(self, turns):
        """Do random things, then everything that is left to do."""
        self.trainer.launch()
        for _ in range(turns):
            chance = self.draw.random()
            if chance < 0.05:
                self.trainer.launch()
            elif chance < 0.35 or not self.trainer.records:
                self.trainer.log_steps()
            elif chance < 0.75:
                self.send()
            elif chance < 0.97:
                project_some(self.draw, self.collectors, self.cut_id, self.clock, interruptions=[self.send])
            else:
                self.settle()
                self.clock.now += DEADLINE
                self.settle()
        for (attempt, rank), records in self.trainer.records.items():
            self.deliver(self.draw.choice(self.collectors), [(attempt, rank, records)])
        self.settle()
        self.clock.now += DEADLINE
        self.settle()

    def send(self):
        """Send one batch or some in one commit to one of the collectors, which may crash."""
        draw = self.draw
        collector, other = draw.sample(self.collectors, 2)
        parts = [self.trainer.some_batch() for _ in range(draw.choice((1, 1, 2, 4)))]
        crash = draw.choice((None, None, None, "before the commit", "after the commit"))
        if collector.store.is_shared and draw.random() < 0.3:
            between = [self.trainer.some_batch()]
            self.deliver(collector, parts, crash=crash, before_flush=lambda: self.deliver(other, between))
        else:
            self.deliver(collector, parts, crash=crash)

    def deliver(self, collector, parts, **options):
        """Append batches to the run, and what is new of them to its twin."""
        parts = [part for part in parts if part[2]]
        appended = collector.append([self._batch(*part, name=self.names[0]) for part in parts], **options)
        if appended is None:
            return
        for (attempt, rank, records), result in zip(parts, appended, strict=True):
            new = [record for record in records if (attempt, rank, record["seq"]) not in self.stored]
            assert (result.accepted, result.duplicates) == (len(new), len(records) - len(new))
            self.stored.update((attempt, rank, record["seq"]) for record in new)
            if new:
                assert self.whole.append([self._batch(attempt, rank, new, name=self.names[1])]) is not None
                while self.whole.project(self.whole_id):
                    pass

    def _batch(self, attempt, rank, records, *, name):
        return self.trainer.batch(attempt, rank, records, run=name, settings=self.settings, now=self.clock.now)

    def settle(self):
        """Project both runs to their ends."""
        if self.stored:
            project_to_end(self.collectors, self.cut_id, self.clock)
        while self.whole.project(self.whole_id):
            pass

    def outcome(self, run_id):
        """Return all that is stored of a run, except when it was done."""
        with self.collectors[0].store.read() as repositories:
            steps = repositories.steps.page(run_id, from_step=0, limit=1_000)
            alerts = repositories.alerts.page(limit=1_000, run_id=run_id)
            detectors = repositories.detector_states.load(run_id)
            names = repositories.steps.signals(run_id)
            series = repositories.series.read(run_id, names)
            records, _ = repositories.records.after(run_id, 0, limit=10_000, max_bytes=10**9)
            run = repositories.runs.find(run_id)
            held = {each.signal: dict(zip(each.steps.tolist(), each.values.tolist(), strict=True)) for each in series}
            assert held == {
                name: {step.step: step.signals[name] for step in steps if name in step.signals} for name in names
            }  # the compacted values are those of the steps
            first = records[0].position if records else 0
            return {
                "records": [
                    each._replace(position=each.position - first, batch=each.batch - first) for each in records
                ],
                "steps": [(step.attempt, step.step, step.time, step.signals) for step in steps],
                "attempts": [
                    (each, step.step, step.signals)
                    for each in repositories.attempts.ordinals(run_id)
                    for step in repositories.steps.of_attempt(run_id, each, from_step=0, limit=1_000)
                ],
                "alerts": [tuple(row[name] for name in ALERT) for row in alerts],
                "phases": (run.phase, list(repositories.phases.all(run_id))),
                "last": (run.last_attempt, run.last_step, run.recent, run.world_size, run.attempt),
                "seen": None if detectors is None else msgspec.msgpack.decode(detectors.state)["seen"],
                "waiting": list(repositories.waiting.first(run_id, limit=1_000)),
                "is_projected": run.is_projected,
            }
