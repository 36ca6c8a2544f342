"""Exposition: live runs and the collector's counters, bounded, read at each scrape."""

import re
import threading
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.testclient import TestClient

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from monitor_server.alerts.collector_alerts import update_collector_alerts
from monitor_server.detection.protocol import Finding, Severity
from monitor_server.exposition.refused_batches import RefusedBatches
from monitor_server.settings import Settings
from tests.live import PATIENCE_SECONDS, eventually, serving

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| `(rlvitals_\w+)` \| (counter|gauge|histogram) \| (.*?) ?\|", re.MULTILINE)


def _samples(live):
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(engine=scripted, clock=clock, exposed_signals=3, exposed_runs=2)


def test_a_live_run_is_exposed_with_phase_signals_and_alerts(live, clock):
    """The current phase is one and the others zero; signals are the newest, alerts those that fire, also in gzip."""
    records = [
        {"step": step, "time": clock.now + 7 * step, "scalars": {"phase": 3.0, "warn": 1.5, "nan": "NaN"}}
        for step in (0, 1)
    ]
    live.send(run="r", project="p", records=records)
    found = _samples(live)
    # Labels are in the order of their names: phase, project, run; kind, project, run, severity.
    assert {key[1]: value for key, value in found.items() if key[0] == "rlvitals_run_phase"} == {
        "warmup": 0, "healthy": 0, "stagnation": 0, "decay": 1, "acceleration": 0, "collapsed": 0, "unknown": 0,
    }  # fmt: skip
    assert found["rlvitals_signal", "p", "r", "warn"] == 1.5
    assert found["rlvitals_signal", "p", "r", "nan"] != found["rlvitals_signal", "p", "r", "nan"]
    assert found["rlvitals_alert_firing", "scripted", "p", "r", "warning"] == 1
    assert found["rlvitals_run_last_step_timestamp_seconds", "p", "r"] == clock.now
    assert found["rlvitals_clock_timestamp_seconds",] == clock.now
    assert found["rlvitals_run_step_seconds", "p", "r"] == 7
    assert found["rlvitals_run_stall_seconds", "p", "r"] == 300
    squeezed = live.pool.request("GET", f"{live.url}/metrics", headers={"Accept-Encoding": "gzip"})
    assert squeezed.headers["Content-Encoding"] == "gzip"
    assert 'rlvitals_signal{project="p",run="r",signal="warn"} 1.5' in squeezed.data.decode()
    refused = live.pool.request("GET", f"{live.url}/metrics", headers={"Accept-Encoding": "gzip;q=0, br"})
    assert "Content-Encoding" not in refused.headers


def test_the_series_of_an_ended_run_go_away(live):
    """A run that has ended without an alert is not exposed."""
    live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    assert any("r" in key[1:] for key in _samples(live))
    live.send(run="r", end="stopped")
    assert not any("r" in key[1:] for key in _samples(live))


def test_the_alert_of_a_run_that_its_trainer_stops_at_once_is_scraped(live, clock):
    """It stays for two minutes after the end, without the metrics that would show the run as silent."""
    live.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0}}])
    live.send(run="r", end="stopped")
    _assert_shown_for_two_minutes(live, clock)


def test_the_alert_of_a_run_that_is_detected_long_after_its_end_is_scraped(start_collector, scripted, clock):
    """The two minutes begin when its last step is processed: no projector has worked for an hour."""
    ingest = start_collector(role="ingest", clock=clock)
    ingest.send(run="r", records=[{"step": 0, "scalars": {"page": 1.0}}])
    ingest.send(run="r", end="stopped")
    clock.now += 3_600
    start_collector(role="projector", engine=scripted, clock=clock)
    eventually(lambda: ("rlvitals_alert_firing", "scripted", "default", "r", "critical") in _samples(ingest))
    _assert_shown_for_two_minutes(ingest, clock)


def _assert_shown_for_two_minutes(live, clock):
    clock.now += 119
    found = {key: value for key, value in _samples(live).items() if "r" in key[1:]}
    assert found == {
        ("rlvitals_alert_firing", "scripted", "default", "r", "critical"): 1,
        ("rlvitals_alert_stage", "scripted", "default", "r", "critical", "firing"): 1,
    }
    clock.now += 2
    assert not any("r" in key[1:] for key in _samples(live))


def test_the_collectors_own_alerts_are_not_exposed_as_those_of_a_run(live, clock):
    """A channel that fails has its own metric; a second alert about it would look like a vital sign of a run."""
    finding = Finding(
        kind="channel_failing:team",
        severity=Severity.WARNING,
        step=0,
        score=3.0,
        threshold=3.0,
        summary="",
        evidence={},
    )
    with live.app.state.collector.store.write() as repositories:
        update_collector_alerts(repositories, [finding], now=clock.now, concerns=lambda kind: kind == finding.kind)
    assert not any(key[0] == "rlvitals_alert_firing" for key in _samples(live))


def test_many_healthy_runs_do_not_hide_the_alert_of_a_silent_one(live, clock):
    """The runs with the most severe alerts are exposed first, and those that are left out are counted."""
    assert _samples(live)["rlvitals_left_out_runs",] == 0
    for number, signals in enumerate([{"warn": 1.0}, {"page": 1.0}, {"a": 1.0}, {"a": 1.0}]):
        clock.now += 1
        live.send(run=f"r{number}", records=[{"step": 0, "scalars": signals}])
    found = _samples(live)
    assert {key[3] for key in found if key[0] == "rlvitals_alert_firing"} == {"r0", "r1"}
    assert {key[2] for key in found if key[0] == "rlvitals_signal"} == {"r0", "r1"}
    assert found["rlvitals_left_out_runs",] == 2


def test_what_is_exposed_is_bounded(live, clock):
    """At most so many runs, without alerts the last heard first, and so many signals each."""
    for number in range(4):
        clock.now += 1
        live.send(run=f"r{number}", records=[{"step": 0, "scalars": {f"s{i}": 1.0 for i in range(9)}}])
    exposed = [key for key in _samples(live) if key[0] == "rlvitals_signal"]
    assert {key[2] for key in exposed} == {"r2", "r3"}
    assert len(exposed) == 2 * 3


def test_whoever_wants_no_runs_is_not_told_that_runs_are_left_out(start_collector):
    """With a limit of 0 no run is exposed, by intention."""
    live = start_collector(exposed_runs=0)
    live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    found = _samples(live)
    assert found["rlvitals_left_out_runs",] == 0
    assert not [key for key in found if key[0] == "rlvitals_run_phase"]


def test_ingest_and_detection_are_counted(live):
    """Stored, refused and repeated records, bytes and times."""
    batch = {"run": "r", "records": [{"step": 0, "scalars": {"a": 1.0}}, {"stp": 1}]}
    live.send(**batch)
    live.send(**batch)
    found = _samples(live)
    assert found["rlvitals_ingest_records_total",] == 1
    assert found["rlvitals_ingest_rejected_total",] == 2
    assert found["rlvitals_ingest_duplicates_total",] == 1
    assert found["rlvitals_ingest_bytes_total",] > 100
    assert found["rlvitals_ingest_seconds_count",] == 2
    assert found["rlvitals_detection_seconds_count",] == 1


def test_every_metric_is_on_a_page_and_those_of_the_table_have_its_type_and_labels(live, clock):
    """Whoever writes a query looks there."""
    records = [{"step": step, "time": clock.now + step, "scalars": {"a": 1.0}} for step in (0, 1)]
    live.send(run="r", project="p", records=records)
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    families = [each for each in text_string_to_metric_families(text) if each.name.startswith("rlvitals_")]
    pages = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    named = {name.removesuffix("_total") for name in re.findall(r"rlvitals_\w+", pages)}
    assert {each.name for each in families if not each.name.endswith("_created")} <= named
    shown = {
        each.name + "_total" * (each.type == "counter"): (each.type, {*each.samples[0].labels} - {"le"})
        for each in families
        if each.samples
    }
    rows = ROW.findall((DOCS / "alerts.md").read_text(encoding="utf-8"))
    assert len(rows) > 10
    for name, kind, labels in rows:
        assert shown[name] == (kind, set(re.findall("`(.+?)`", labels)))


def test_batches_that_are_refused_as_a_whole_are_counted_by_reason(start_collector):
    """They reach no store, and otherwise only the trainer's log tells of them."""
    live = start_collector(max_body_bytes=2_000)
    batch = {"schema_version": 1, "run": "r", "records": [{"step": 0, "scalars": {"a": 1.0}}]}

    def status(headers=None, **changed):
        url = f"{live.url}/api/v1/ingest"
        return live.pool.request("POST", url, json=batch | changed, headers=headers).status

    def counts():
        return {
            key[1]: value for key, value in _samples(live).items() if key[0].startswith("rlvitals_ingest_refused_b")
        }

    none = dict.fromkeys(["address", "error", "invalid", "key", "later", "rate", "schema", "size"], 0)
    assert (status(), counts(), live.get("/status")["refused_batches"]) == (200, none, none)
    assert [status(schema_version=99), status(run=7), status(run="r" * 3_000), status({"Host": "evil.example"})] == [
        422, 422, 413, 421
    ]  # fmt: skip
    assert status({"Content-Type": "text/plain"}) == 415
    with live.app.state.collector.store.write() as repositories:
        create_key(
            repositories, name="a", scope=Scope.INGEST, project=None, expires_at=None,
            author=Caller(name="a", scope=Scope.ADMIN), now=0.0,
        )  # fmt: skip
    live.app.state.collector.keys.read()
    assert status() == 401
    counted = live.app.state.collector.exposition.refused_batches.counts()
    assert counted == none | {"schema": 1, "invalid": 2, "size": 1, "address": 1, "key": 1}


@pytest.mark.parametrize(("status", "reason"), [(429, "rate"), (500, "error"), (501, "error"), (503, "later")])
def test_a_refused_batch_is_counted_as_sent_later_only_where_the_collector_lacked_room(status, reason):
    """A key that is always over its limit, and a batch that always fails, do not end by themselves."""
    refused = RefusedBatches()
    app = refused.count_answers(Response("no", status), path="/ingest")
    assert TestClient(app).post("/ingest").status_code == status
    assert {name for name, count in refused.counts().items() if count} == {reason}


def test_what_happens_seldom_is_counted_from_zero(live):
    """The first rows that are removed, and the first events that go to another collector, are an increase."""
    found = _samples(live)
    removed = {key[1]: value for key, value in found.items() if key[0] == "rlvitals_removed_rows_total"}
    assert removed == dict.fromkeys(removed, 0)
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}], end="finished")
    assert live.pool.request("DELETE", f"{live.url}/api/v1/runs/{run_id}").status == 200
    eventually(lambda: _samples(live)["rlvitals_removed_rows_total", "runs"] == 1)
    later = {key[1] for key in _samples(live) if key[0] == "rlvitals_removed_rows_total"}
    assert later == set(removed) >= {"records", "alerts", "silences", "audit_entries"}
    assert [found["rlvitals_relayed_events_total", way] for way in ("sent", "received", "dropped")] == [0, 0, 0]


def test_collectors_in_one_process_count_apart(start_collector):
    """Each has its own registry; nothing is registered globally."""
    first, second = start_collector(), start_collector()
    first.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    assert _samples(first)["rlvitals_ingest_records_total",] == 1
    assert _samples(second)["rlvitals_ingest_records_total",] == 0
    assert REGISTRY.get_sample_value("rlvitals_ingest_records_total") is None


def test_health_and_readiness(start_collector):
    """The process is alive at all times; it is ready only while store and writer answer."""
    live = start_collector()
    for path, more in (("/healthz", {}), ("/readyz", {"quarantined_runs": 0, "failing_channels": 0})):
        answer = live.pool.request("GET", live.url + path)
        assert (answer.status, answer.json()) == (200, {"status": "ok"} | more)
    live.app.state.collector.writer.stop()
    answer = eventually(lambda: live.pool.request("GET", live.url + "/readyz"))
    assert (answer.status, answer.json()["error"]) == (503, "Unavailable")


def test_the_queues_of_the_projector_are_exposed(live):
    """Both are there, and empty when everything is projected."""
    live.send(run="r", records=[{"step": 1}])
    eventually(lambda: _samples(live)["rlvitals_projector_queued_runs",] == 0)
    assert _samples(live)["rlvitals_projector_waiters",] == 0


def test_the_steps_that_wait_for_ranks_are_exposed(live):
    """Two steps wait for the second of two ranks; both are complete once it has sent them."""
    for rank, waiting in ((0, 2), (1, 0)):
        live.send(run="r", rank=rank, world_size=2, records=[{"step": 1}, {"step": 2}])
        eventually(lambda expected=waiting: _samples(live)["rlvitals_waiting_steps",] == expected)


def test_requests_connections_and_bodies_are_exposed(live):
    """An export that is under way, the bytes of a body that is being received, and the connection of the scrape."""
    collector, bodies = live.app.state.collector, live.app.state.bodies
    before = _samples(live)
    kinds = ("read", "export", "incident_report", "dry_run", "large_batch")
    assert [before["rlvitals_requests_under_way", kind] for kind in kinds] == [0, 0, 0, 0, 0]
    assert [before["rlvitals_held_bytes", part] for part in ("bodies", "answers")] == [0, 0]
    assert before["rlvitals_open_connections",] >= 1
    bodies.hold(5_000)
    with collector.exports.admit():
        found = _samples(live)
    assert (found["rlvitals_requests_under_way", "export"], found["rlvitals_held_bytes", "bodies"]) == (1, 5_000)


def test_the_sizes_of_caches_are_exposed(live):
    """The sizes are those of ingest and of the projector: one run is in memory."""
    live.send(run="r", records=[{"step": 1}])
    eventually(lambda: _samples(live)["rlvitals_cached_entries", "detector_runs"] == 1)
    assert _samples(live)["rlvitals_cached_entries", "log_runs"] == 1


def test_the_end_of_a_key_and_the_space_of_the_disk_are_shown(start_collector, clock):
    """The end is that of valid keys with an end; the space is that of the disk of a SQLite database."""
    live = start_collector(clock=clock)
    collector = live.app.state.collector
    admin = Caller(name="a test", scope=Scope.ADMIN)
    with collector.store.write() as repositories:
        ends = {"lasting": None, "ending": clock.now + 60.0, "over": clock.now - 60.0}
        secrets = [
            create_key(
                repositories, name=name, scope=Scope.READ, project=None, expires_at=end, author=admin, now=clock.now
            )[0]
            for name, end in ends.items()
        ]
    collector.keys.read()
    headers = {"Authorization": f"Bearer {secrets[0]}"}
    text = live.pool.request("GET", f"{live.url}/metrics", headers=headers).data.decode()
    found = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("rlvitals_key_expiry")]
    assert [(name, float(value)) for name, value in found] == [
        ('rlvitals_key_expiry_timestamp_seconds{key="ending"}', clock.now + 60.0)
    ]
    free = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("rlvitals_database_free_bytes ")]
    assert all(float(value) > 0 for _, value in free)
    assert bool(free) == (not collector.store.is_shared)


class Waiting(Collector):
    """A part of the metrics that is read when a test lets it."""

    def __init__(self):
        self.may_end = threading.Event()
        self.reads = 0

    def collect(self):
        """Wait."""
        self.reads += 1
        assert self.may_end.wait(PATIENCE_SECONDS)
        return []


def test_scrapes_keep_no_other_request_waiting(database_url):
    """A scrape of many runs takes 0.4 s; several at the same time have one answer, and no thread of the readers."""
    registry, waiting = CollectorRegistry(), Waiting()
    registry.register(waiting)
    settings = Settings(database_url=database_url, dashboard="")
    with serving(settings, registry=registry) as live:
        answers = []
        scrapers = [
            threading.Thread(target=lambda: answers.append(live.pool.request("GET", f"{live.url}/metrics").status))
            for _ in range(6)
        ]
        for scraper in scrapers:
            scraper.start()
        eventually(lambda: waiting.reads > 0 and len(live.server.server_state.tasks) == len(scrapers))
        assert live.get("/runs")["items"] == []
        assert answers == []
        waiting.may_end.set()
        for scraper in scrapers:
            scraper.join(PATIENCE_SECONDS)
        assert (answers, waiting.reads) == ([200] * len(scrapers), 1)
