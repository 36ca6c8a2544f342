"""The replayed alarms of a run are those that the same detectors opened in a collector, over any rewinds."""

import random

import pytest

from monitor_server.alerts.changes.lifecycle import Lifecycle
from monitor_server.api.schemas.alerts import alert_item
from monitor_server.commands.collector.reassess.alarm_comparison import Alarms, CriticalAlert, page_episodes
from monitor_server.commands.collector.reassess.replayed_alerts import replay_alarms
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Assessment, Finding, Observation, Phase, Severity

KINDS = ("death_spiral", "run_collapsed", "non_finite")
INFO, WARNING, CRITICAL = Severity


class Script(Engine):
    """Finds in each row what is written for it: the severities of some kinds."""

    def __init__(self, found):
        super().__init__()
        self.found = iter(found)

    def update(self, observation):
        """Return the findings that are written for the next row."""
        step = observation.step
        findings = [Finding(kind, severity, step, 1.0, 1.0, kind) for kind, severity in next(self.found).items()]
        return Assessment(step=step, phase=Phase.HEALTHY, findings=findings)


def random_rows(seed, *, rows=60):
    """Return rows and what is found in them: findings begin, end and change, and one row in twenty goes back."""
    draw, step, attempt, held = random.Random(seed), 0, 1, {}  # noqa: S311 - synthetic findings
    observations, found = [], []
    for _ in range(rows):
        step += 1
        if draw.random() < 0.05:
            step, attempt = max(1, step - draw.choice((1, 2, 5, 10))), attempt + 1
        for kind in KINDS:
            if draw.random() < (0.2 if kind in held else 0.06):
                severity = draw.choice((None, INFO, WARNING, CRITICAL, CRITICAL))
                held.pop(kind, None)
                held |= {} if severity is None else {kind: severity}
        observations.append(Observation(step=step, attempt=attempt, signals={}))
        found.append(dict(held))
    return observations, found


def record(store, run_id, observations, found):
    """Return the alarms that a collector records, which saves its alerts after every few rows."""
    engine, last, rows = Script(found), None, list(observations)
    for begin in range(0, len(rows), 7):
        with store.write() as repositories:
            alerts = Lifecycle(repositories.alerts.open(run_id), run_id)
            for row in rows[begin : begin + 7]:
                alerts.reconcile(
                    engine.update(row).findings,
                    phase="healthy",
                    step=row.step,
                    now=10.0,
                    concerns=lambda _: True,
                    rewinds=last is None or row.step <= last,
                )
                last = row.step
            alerts.save(repositories, now=10.0)
    with store.read() as repositories:
        items = [alert_item(row).model_dump() for row in repositories.alerts.page(limit=500, run_id=run_id)]
    critical = [CriticalAlert.of_item(item) for item in reversed(items) if item["severity"] == "critical"]
    return Alarms(pages=page_episodes(critical), is_warned=any(item["severity"] != "info" for item in items))


@pytest.mark.parametrize("seed", range(12))
def test_the_replayed_alarms_are_those_that_the_collector_records(seed, store, append):
    """A version is never better or worse than itself."""
    observations, found = random_rows(seed)
    assert replay_alarms(observations, Script(found)) == record(store, append(records=[]), observations, found)


def test_a_finding_that_is_critical_again_in_an_open_alert_is_no_other_page():
    """The alert stays critical until it is resolved."""
    found = [{}, {KINDS[0]: CRITICAL}, {KINDS[0]: WARNING}, {KINDS[0]: CRITICAL}, {}, {KINDS[0]: CRITICAL}]
    rows = [Observation(step=step, signals={}) for step in range(6)]
    assert replay_alarms(rows, Script(found)) == Alarms(pages=[1, 5], is_warned=True)


def test_a_step_that_was_seen_before_is_passed_over():
    """As the collector does."""
    rows = [Observation(step=step, signals={}) for step in (1, 2, 2, 1, 3)]
    found = [{}, {KINDS[0]: INFO}, {KINDS[0]: INFO}]
    assert replay_alarms(rows, Script(found)) == Alarms(pages=[], is_warned=False)
