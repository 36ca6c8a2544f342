"""Warnings that are kept for some steps after their last finding, over random steps, attempts, failures and ends."""

import uuid

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from tests.databases import sqlite_only

FOUND = ("tell", "warn", "page")
# Moves to a step (its distance, what is found at it, whether it begins an attempt), or what ends the steps.
STEP = st.tuples(st.integers(1, 4), st.sampled_from((None, None, None, *FOUND, "fail")), st.just(False))
ATTEMPT = st.tuples(st.integers(-6, 4), st.sampled_from((None, *FOUND, "fail")), st.just(True))
EVENTS = st.lists(st.one_of(STEP, STEP, STEP, STEP, ATTEMPT, st.sampled_from(("end", "silence"))), max_size=14)


class Rule:
    """Whether the alert of a run fires, as docs/alerts.md states it."""

    def __init__(self, keep):
        self.keep = keep
        self.fires = self.has_failed = False
        self.critical_at = None
        self.found_at = self.step = 0

    def take(self, step, found, *, begins):
        """Take a step and what is found at it."""
        if found == "fail":
            self.step, self.has_failed = step, True
            return
        goes_back = begins and step <= self.step
        if goes_back and self.critical_at is not None and self.critical_at >= step:
            self.critical_at = None
        is_near = step - self.found_at <= self.keep
        is_kept = self.critical_at is None and not begins and not self.has_failed and is_near
        self.fires = found is not None or (self.fires and is_kept)
        if found is not None:
            self.found_at = step
        if found == "page" and self.critical_at is None:
            self.critical_at = step
        if not self.fires:
            self.critical_at = None
        self.step, self.has_failed = step, False

    def end(self):
        """Take the end of the steps."""
        if not self.has_failed:
            self.fires = self.fires and self.found_at == self.step


def _alerts(store, run_id):
    with store.read() as repositories:
        return [dict(row) for row in repositories.alerts.page(limit=1_000, run_id=run_id)]


def _critical_steps(store, run_id):
    return [(row["kind"], row["severity_step"]) for row in _alerts(store, run_id) if row["severity"] == "critical"]


class Life:
    """A run with a setting, and what holds of it."""

    def __init__(self, keep, store, append, projection):
        self.name, self.rule = uuid.uuid4().hex, Rule(keep)
        self.store, self.append, self.projection = store, append, projection
        self.id = append(run=self.name)

    def live(self, event, attempt, step):
        """Let the run do something, and compare whether its alert fires."""
        if event == "end":
            self.append(run=self.name, attempt=attempt, end="finished")
        elif event != "silence":
            _, found, begins = event
            scalars = {} if found is None else {found: 1.0}
            self.append(run=self.name, attempt=attempt, records=[{"step": step, "scalars": scalars}])
            self.rule.take(step, found, begins=begins)
        self.projection.project(self.store, self.id)
        if event in ("end", "silence"):
            self.rule.end()
        found = [row for row in _alerts(self.store, self.id) if row["kind"] == "scripted"]
        assert [row["state"] for row in found].count("firing") == self.rule.fires


@sqlite_only
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lived=st.tuples(st.integers(0, 6), EVENTS))
@example(lived=(3, [(1, "warn", False), (1, "fail", True), (1, None, False)]))
@example(lived=(3, [(1, "warn", False), (1, None, False), "end"]))
@example(lived=(3, [(1, "warn", False), (1, "fail", False), "silence", (1, None, False)]))
def test_a_warning_is_kept_by_the_rule_that_the_documents_state(store, append, scripted, clock, lived):
    """Only within an attempt, while steps go on, and never beyond the setting; critical alerts are as without it."""

    def begin(keep):
        projection = Projection(Tracker(scripted), settings=Settings(keep_firing_steps=keep), clock=clock)
        return Life(keep, store, append, projection)

    keep, events = lived
    lives, attempt, step = [begin(0), begin(keep)], 1, 10
    for event in events:
        clock.now += 1e6 if event == "silence" else 1
        if event not in ("end", "silence"):
            attempt, step = attempt + event[2], max(1, step + event[0])
        for life in lives:
            life.live(event, attempt, step)
    without, kept = (_critical_steps(store, life.id) for life in lives)
    assert kept == without
