"""Requests that people make at random are handed to one process of a trainer, and end with what it has answered."""

import asyncio
import random
import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.action_requests.due_requests import RequestDelivery
from monitor_server.action_requests.outcomes import RequestOutcomes
from monitor_server.action_requests.requesting import ANSWER_SECONDS, REQUEST_SECONDS, RequestableAction, request_action
from monitor_server.errors import RequestNotPossible
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from tests.monitor_server.interrupted_stores import crashing
from tests.monitor_server.simulated_collectors import SimulatedCollector, random_examples
from trainer_hooks import wire

SETTINGS = Settings(stall_minimum_seconds=1e9)


class AskingCollector(SimulatedCollector):
    """A collector that hands requests out and records what came of them."""

    def __init__(self, store, engine, clock):
        super().__init__(store, engine, clock, SETTINGS)
        self.delivery = RequestDelivery(store, clock=clock, time=clock)
        self.outcomes = RequestOutcomes(store, clock=clock, deadlines=SETTINGS.deadlines)


@dataclass
class Process:
    """A process of the trainer, which decides once about each request, and reports what it has done."""

    attempt: int
    known: set = field(default_factory=set)
    reports: list = field(default_factory=list)


class AskedRun:
    """A run whose trainer is asked for actions, is started again, and ends, while receipts and reports are late."""

    def __init__(self, seed, stores, engine, clock):
        self.draw, self.clock, self.store = random.Random(seed), clock, stores[0]  # noqa: S311 - synthetic telemetry
        stores = stores if stores[0].is_shared else stores[:1]
        self.collectors = [AskingCollector(store, engine, clock) for store in stores]
        self.name = uuid.uuid4().hex
        self.run_id = wire.run_id("default", self.name)
        self.process, self.step, self.seq, self.has_ended = Process(attempt=1), 0, 0, False
        self.is_over = (
            False  # whether the run has ended for the collectors; a process that was just started has not sent
        )
        self.sent, self.late = [], []  # batches that may be sent again, and reports of processes that are gone
        self.asked, self.decided, self.reported = {}, {}, {}

    def run(self, turns):
        """Do random things, then let all times pass."""
        self.send()
        actions = [
            *[self.ask] * 3, *[self.receive] * 4, *[self.send] * 3, self.send_again, *[self.tick] * 3,
            *[self.pass_time] * 3, self.restart, self.end,
        ]  # fmt: skip
        for _ in range(turns):
            self.draw.choice(actions)()
        self.send()
        self.clock.now += REQUEST_SECONDS + ANSWER_SECONDS
        for collector in self.collectors:
            collector.outcomes.tick()
        self.check()

    def ask(self):
        """Ask for an action, which is refused while the same one waits, or a stop and this one goes back."""
        action = self.draw.choice((RequestableAction.STOP, RequestableAction.ROLLBACK))
        with self.draw.choice(self.collectors).store.write() as repositories:
            (alert,) = repositories.alerts.firing(self.run_id)
            waiting = {request.action for request in repositories.action_requests.open_of_run(self.run_id)}
            excluding = {action, RequestableAction.STOP} if action == RequestableAction.ROLLBACK else {action}
            if self.is_over or waiting & excluding:
                with pytest.raises(RequestNotPossible):
                    request_action(repositories, alert.id, action, by="ann", note="", now=self.clock.now)
                return
            request = request_action(repositories, alert.id, action, by="ann", note="", now=self.clock.now)
        self.asked[request.id] = request

    def receive(self):
        """Let the trainer decide about what a receipt asks for; a receipt may be lost, and a decision is made once."""
        if self.has_ended:
            return
        process, collector = self.process, self.draw.choice(self.collectors)
        for request in asyncio.run(collector.delivery.requests(self.run_id, process.attempt)):
            asked = self.asked[request.id]
            assert asked.attempt == process.attempt
            assert 0.0 < request.seconds_left <= asked.requested_at + REQUEST_SECONDS - self.clock.now
            if request.id in process.known or self.draw.random() < 0.3:
                continue
            process.known.add(request.id)
            outcome = self.draw.choice(("taken", "refused"))
            assert self.decided.setdefault(request.id, outcome) is outcome
            fields = {"action": asked.action, "alert_id": asked.alert_id, "reason": "", "request_id": request.id}
            process.reports += [fields | {"outcome": "received"}, fields | {"outcome": outcome}]

    def send(self, **fields):
        """Send a step with the next reports, and project it."""
        draw, source = self.draw, self.process.reports if self.draw.random() < 0.8 else self.late
        reports = [source.pop(0) for _ in range(min(len(source), draw.choice((0, 1, 2))))]
        attempt = self.process.attempt
        if self.has_ended and not fields:
            return
        self.step, self.seq = self.step + 1, self.seq + 2
        record = {"step": self.step, "seq": self.seq, "time": self.clock.now, "scalars": {"page": 1.0}}
        records = [record | ({"actions": reports} if reports else {})]
        self.deliver({"attempt": attempt, "records": records} | fields)
        self.reported |= {report["request_id"]: report["outcome"] for report in reports}

    def deliver(self, batch):
        """Append a batch, and project the run by any collector, which may crash."""
        body = wire.encode({"schema_version": wire.SCHEMA_VERSION, "run": self.name} | batch)
        valid = read_batch(body, media_type=wire.MSGPACK, encoding="", settings=SETTINGS, now=self.clock.now)
        assert self.draw.choice(self.collectors).append([valid]) is not None
        self.sent.append(batch)
        if batch["attempt"] == self.process.attempt:
            self.is_over = self.has_ended or "end" in batch
        for _ in range(50):
            collector = self.draw.choice(self.collectors)
            store = crashing(collector.store) if self.draw.random() < 0.1 else collector.store
            if (has_more := collector.project(self.run_id, store=store)) is False:
                return
            self.clock.now += 10.0 * (has_more is None)  # another collector owns the run
        raise AssertionError("the run was not projected")

    def send_again(self):
        """Repeat a batch whose receipt was lost."""
        self.deliver(self.draw.choice([batch for batch in self.sent if batch["records"]]))

    def tick(self):
        """Let a collector look at what is over."""
        self.draw.choice(self.collectors).outcomes.tick()

    def pass_time(self):
        """Let time pass."""
        self.clock.now += self.draw.choice((1.0, 60.0, 400.0, ANSWER_SECONDS))

    def restart(self):
        """Start the trainer again, in the same attempt or another one; reports that are on disk may follow."""
        if self.draw.random() < 0.5:
            return
        self.late += self.process.reports
        is_same = self.draw.random() < 0.4
        self.process = Process(attempt=self.process.attempt + (not is_same))
        self.has_ended = False
        if not is_same and self.draw.random() < 0.5:  # the first batch comes late
            return
        self.deliver({"attempt": self.process.attempt, "records": [], "config": {"lr": self.step}})

    def end(self):
        """Let the run finish."""
        if self.draw.random() < 0.3 and not self.has_ended:
            self.send(end="finished")
            self.has_ended = True

    def check(self):
        """Compare the state of each request with what the trainer has reported."""
        states = {"taken": "done", "refused": "refused"}
        with self.store.read() as repositories:
            history = repositories.alert_history.page(self.run_id, "scripted", limit=1_000)
            for request_id in self.asked:
                found = repositories.action_requests.find(request_id)
                assert found.state == states.get(self.reported.get(request_id), "expired")
        changes = [entry["change"] for entry in history]
        ended = [self.reported.get(request_id) for request_id in self.asked]
        assert changes.count("action_requested") == len(self.asked)
        assert changes.count("action_done") == ended.count("taken")
        assert changes.count("action_refused") == ended.count("refused")


@random_examples(2)
@given(seed=st.integers(0, 2**32 - 1))
def test_each_request_ends_as_its_trainer_has_answered(two_stores, scripted, clock, seed):
    """This holds for any receipts, repeats, late reports, restarts, crashes and collectors."""
    AskedRun(seed, two_stores, scripted, clock).run(60)
