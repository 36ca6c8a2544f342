"""Whatever happens to alerts, people, receivers and collectors, each change reaches each of its channels once."""

import random
import uuid
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from monitor_server.alerts.acknowledgement import AlertAcknowledgement, acknowledge
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from monitor_server.store.repositories.notifications.messages import FORMER
from monitor_server.store.repositories.silences import Silence
from tests.monitor_server.interrupted_stores import Between, crashing
from tests.monitor_server.notifications.expected_notifications import ExpectedNotifications
from tests.monitor_server.notifications.notifying_collectors import NotifyingCollector, document_of, save
from tests.monitor_server.simulated_collectors import random_examples
from trainer_hooks import wire

CHANNELS = ("a", "b", "c")
LONGEST_DELIVERY = 65.0  # seconds, well below the claim


@dataclass
class NotifiedRun:
    """A run with its newest attempt and step."""

    id: str
    name: str
    project: str
    attempt: int = 1
    step: int = 0
    is_deleted: bool = False


class NotifiedTeam:
    """Runs, people, receivers and collectors to which everything happens that can happen to notifications."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock = random.Random(seed), clock  # noqa: S311 - synthetic telemetry
        self.settings = Settings(stall_minimum_seconds=1e9, pending_steps=self.draw.choice((0, 0, 1)))
        stores = stores if stores[0].is_shared else stores[:1]
        unique = uuid.uuid4().hex[:8]  # the examples share a database
        self.projects = [f"p {unique}", f"q {unique}"]
        self.expected = ExpectedNotifications()
        with stores[0].write() as repositories:
            self._save(repositories)
        self.collectors = [NotifyingCollector(store, engine, clock, self.settings) for store in stores]
        self.store = stores[0]
        self.runs = []
        for number in range(3):
            name, project = f"run {number}", self.projects[number % 2]
            self.runs.append(NotifiedRun(wire.run_id(project, name), name, project))
        self.is_up = dict.fromkeys(CHANNELS, True)
        self.delivered = {}  # the bodies that receivers have accepted, by message
        self.silences = []
        self.is_settling = False

    def run(self, turns):
        """Do random things, then everything that is left to do."""
        actions = [
            *[self.make_step] * 6, *[self.look] * 3, *[self.finish] * 4, *[self.pass_time] * 3, self.silence,
            self.silence, self.end_silence, self.tick, self.tick, self.acknowledge, self.toggle_receiver,
            self.toggle_receiver, self.crash,
        ]  # fmt: skip
        for run in self.runs:
            self.make_step(run)
        for _ in range(turns):
            chance = self.draw.random()
            if chance < 0.02:
                self.delete()
            elif chance < 0.05:
                self.save()
            else:
                self.draw.choice(actions)()
        self.settle()

    def settle(self):
        """Let all receivers accept, and time pass, until nothing is left to tell."""
        self.is_settling = True
        self.is_up = dict.fromkeys(CHANNELS, True)
        for _ in range(100):
            for collector in self.collectors:
                self.tick(collector)
                self.look(collector)
                while collector.under_way:
                    self.finish(collector)
            is_silent = any((silence.ends_at or 0.0) > self.clock.now for silence in self.silences)
            if not is_silent and not self.expected.missing(self.delivered):
                break
            self.clock.now += 400.0
        assert not self.expected.missing(self.delivered), self.expected.missing(self.delivered)

    # What happens

    def make_step(self, run=None):
        """Record a step that is better or worse, perhaps in an attempt that goes back, and project it."""
        draw, run = self.draw, run or self.draw.choice(self.runs)
        if run.is_deleted:
            return
        if draw.random() < 0.1:
            run.attempt, run.step = run.attempt + 1, max(0, run.step - draw.choice((0, 1, 3)))
        records = []
        for _ in range(1 if self.settings.pending_steps else draw.choice((1, 1, 1, 3))):
            run.step += 1
            signals = {"warn": float(draw.random() < 0.4), "page": float(draw.random() < 0.2)}
            records.append({"step": run.step, "seq": run.attempt * 1_000 + run.step, "time": 1e6, "scalars": signals})
        body = {"schema_version": wire.SCHEMA_VERSION, "run": run.name, "project": run.project}
        body = wire.encode(body | {"attempt": run.attempt, "records": records})
        valid = read_batch(body, media_type=wire.MSGPACK, encoding="", settings=self.settings, now=self.clock.now)
        assert draw.choice(self.collectors).simulated.append([valid]) is not None
        for _ in range(50):
            collector = draw.choice(self.collectors)
            store, chance = collector.store, draw.random()
            if chance < 0.1:
                store = crashing(store)
            elif chance < 0.3 and self.store.is_shared:
                store = Between(store, before=draw.choice((self.silence, self.acknowledge, self.tick, self.look)))
            has_more = collector.simulated.project(run.id, store=store, is_smallest=draw.random() < 0.5)
            self.observe()
            if has_more is False:
                return
            self.clock.now += 10.0 * (has_more is None)  # another collector owns the run
        raise AssertionError("the step was not projected")

    def silence(self):
        """Silence what a person names, from now on or later, for some time or until the alert is resolved."""
        draw, now = self.draw, self.clock.now
        run = draw.choice([run for run in self.runs if run.step])
        open_alerts = self._alerts("pending", "firing")
        named = draw.choice(({"run_id": run.id}, {"project": run.project}, {"alert_id": None}))
        severity = draw.choice(("warning", "critical"))
        starts_at, ends_at = now + draw.choice((0.0, 0.0, 0.0, 5.0, 100.0)), None
        if run.is_deleted or ("alert_id" in named and not open_alerts):
            return
        if "alert_id" in named:
            alert = draw.choice(open_alerts)
            named, severity = {"alert_id": alert["id"]}, alert["severity"]
        if "alert_id" not in named or draw.random() < 0.5:
            ends_at = starts_at + draw.choice((3.0, 60.0, 1000.0))
        fields = dict.fromkeys(("project", "run_id", "kind", "alert_id")) | named
        silence = Silence(
            id=uuid.uuid4().hex[:16], severity=severity, starts_at=starts_at, ends_at=ends_at, reason="known",
            created_at=now, created_by="ann", **fields,
        )  # fmt: skip
        collector = draw.choice(self.collectors)
        with collector.store.write() as repositories:
            repositories.silences.add(silence)
            if draw.random() < 0.7:  # otherwise the writer is interrupted, and a tick applies it
                collector.silencing.apply(repositories)
        self.silences.append(silence)
        self.observe()

    def end_silence(self):
        """End a silence by hand."""
        if not self.silences:
            return
        collector = self.draw.choice(self.collectors)
        with collector.store.write() as repositories:
            repositories.silences.end(self.draw.choice(self.silences).id, by="bob", now=self.clock.now)
            collector.silencing.apply(repositories)
        self.observe()

    def tick(self, collector=None):
        """Apply the silences that begin or end."""
        (collector or self.draw.choice(self.collectors)).silencing.tick()
        self.observe()

    def acknowledge(self):
        """Acknowledge an open alert."""
        open_alerts = self._alerts("firing")
        if not open_alerts:
            return
        alert = self.draw.choice(open_alerts)
        given = AlertAcknowledgement(run_id=alert["run_id"], alert_id=alert["id"], by="ann", note="")
        with self.draw.choice(self.collectors).store.write() as repositories:
            acknowledge(repositories, given, now=self.clock.now)
        self.observe()

    def delete(self):
        """Delete a run; its rows are removed some at a time."""
        run = self.draw.choice(self.runs)
        if run.is_deleted or self.draw.random() < 0.5:
            return
        with self.store.write() as repositories:
            repositories.deletion.begin_deletion([run.id], now=self.clock.now)
        run.is_deleted = True
        self.expected.forget_run(run.id)

    def save(self):
        """Save other channels and routes."""
        collector = self.draw.choice(self.collectors)
        with collector.store.write() as repositories:
            self._save(repositories)

    def look(self, collector=None):
        """Form messages, perhaps without a commit."""
        collector = collector or self.draw.choice(self.collectors)
        is_crashing = not self.is_settling and self.draw.random() < 0.1
        has_planned = False
        try:
            has_planned = collector.look(crashing(collector.store) if is_crashing else None)
        except ZeroDivisionError:
            collector.restart()
        with self.store.read():
            if has_planned:
                self.expected.see_late(collector.documents.file, now=self.clock.now)
            self.expected.see_messages([run.id for run in self.runs], now=self.clock.now)

    def finish(self, collector=None):
        """End a delivery: the receiver accepts the message or not, and the collector may crash before it notes this."""
        collector = collector or self.draw.choice(self.collectors)
        if not collector.under_way:
            return
        channel = self.draw.choice(sorted(collector.under_way))
        message, _ = collector.under_way[channel]
        is_accepted = FORMER in channel or self.is_up[channel]
        if is_accepted:
            assert self.delivered.setdefault(message.id, message.body) == message.body
        if not self.is_settling and self.draw.random() < 0.1:
            collector.restart()
            return
        collector.finish(channel, error=None if is_accepted else "it refuses")
        if not is_accepted:
            self.expected.see_failure(message, collector.documents.file, now=self.clock.now)

    def pass_time(self):
        """Let time pass; a delivery that takes too long has ended by then."""
        seconds = self.draw.choice((0.3, 1.0, 1.0, 20.0, 61.0, 400.0, 4000.0))
        for collector in self.collectors:
            while any(begun + LONGEST_DELIVERY < self.clock.now + seconds for _, begun in collector.under_way.values()):
                self.finish(collector)
        self.clock.now += seconds

    def toggle_receiver(self):
        """Let a receiver refuse, or accept again."""
        name = self.draw.choice(CHANNELS)
        self.is_up[name] = not self.is_up[name]

    def crash(self):
        """End a collector and start it again."""
        self.draw.choice(self.collectors).restart()

    # What follows from it

    def observe(self):
        """Note what has changed in alerts."""
        with self.store.read() as repositories:
            rows = [row for run in self.runs for row in repositories.alerts.page(limit=1_000, run_id=run.id)]
        for row in reversed(rows):
            self.expected.see_alert(row, now=self.clock.now)

    def _alerts(self, *states):
        return [alert for alert in self.expected.alerts.values() if alert["state"] in states]

    def _save(self, repositories):
        """Save random channels and routes."""
        draw = self.draw
        names = [name for name in CHANNELS if draw.random() < 0.9] or ["a"]
        levels = [{"after_minutes": minutes, "channels": [draw.choice(names)]} for minutes in (1.0, 8.0)]
        routes = [
            {
                "channels": draw.sample(names, draw.choice((1, 1, len(names)))),
                "projects": draw.choice(([], [self.projects[0]], [self.projects[1]])),
                "severity": draw.choice(("info", "warning", "critical")),
                "resolved": draw.random() < 0.7,
                "escalate": levels[: draw.choice((0, 0, 1, 2))],
            }
            for _ in range(draw.choice((1, 2, 3)))
        ]
        document = document_of(
            names,
            routes=routes,
            match=draw.choice(("first", "all")),
            grouping={"wait_seconds": draw.choice((0, 0.5, 30)), "window_seconds": draw.choice((0, 60, 600))},
            limits={"messages_per_hour": draw.choice((3, 60)), "give_up_hours": draw.choice((0.1, 24))},
        )
        if draw.random() < 0.3:
            document["fallback"] = {"channel": draw.choice(names), "after_minutes": draw.choice((0, 5))}
        save(repositories, document, now=self.clock.now)
        self.expected.use(document)


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
def test_each_change_of_an_alert_reaches_each_channel_once(two_stores, scripted, clock, seed):
    """This holds for any silences, acknowledgements, deletions, settings, refusals, crashes and collectors."""
    NotifiedTeam(seed, two_stores, scripted, clock).run(40)
