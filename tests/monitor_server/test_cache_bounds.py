"""Each cache of a collector has a bound, which `/metrics` and docs/operations.md name."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from monitor_server.access import rate_limits
from monitor_server.ingest.record_log import known_runs, sampled_responses, step_shapes
from monitor_server.ingest.validation import layouts, records
from monitor_server.rules import known_rules
from monitor_server.step_processing.run_memory import compacted_runs, passed_alerts, signal_positions
from monitor_server.step_processing.scheduling import known_verdicts
from monitor_server.step_processing.steps import completion, late_records, waiting
from tests.live import eventually
from tests.monitor_server.retention.runs import sampled
from trainer_hooks import wire

BOUND = 3
RUNS = 5
NAMES_BOUND = 20
BOUNDS = (
    (known_runs, "MAX_RUNS"),
    (step_shapes, "MAX_STEPS"),
    (sampled_responses, "MAX_CACHED_RUNS"),
    (layouts, "MAX_LAYOUTS"),
    (compacted_runs, "MAX_CACHED_RUNS"),
    (signal_positions, "MAX_CACHED_RUNS"),
    (waiting, "MAX_CACHED_RUNS"),
    (passed_alerts, "MAX_CACHED_RUNS"),
    (completion, "MAX_CROWDED_RUNS"),
    (late_records, "MAX_FULL_STEPS"),
    (known_verdicts, "MAX_VERDICTS"),
    (known_rules, "MAX_REMEMBERED_RUNS"),
    (rate_limits, "MOST_CALLERS"),
)
# Caches whose bound the runs of the test reach. The bound of the detectors is a parameter, and other caches need
# several collectors or sign-ins.
FULL = {
    "log_runs", "log_steps", "thinned_runs", "record_layouts", "signal_positions", "waiting_runs", "compacted_runs",
    "passed_alert_runs", "verdicts", "runs_with_rules",
}  # fmt: skip
OTHERS = {
    "log_shared_runs", "log_ranks", "valid_names", "owned_runs", "watched_runs", "late_runs", "full_steps",
    "mended_runs", "crowded_runs", "runs_behind", "retried_runs", "waiting_writes", "detector_runs", "rule_runs",
    "runs_of_others",
    "recent_verdicts", "link_addresses", "view_callers", "callers", "streams", "stream_events",
    "published_events", "accepted_messages", "relay_messages", "relay_senders",
}  # fmt: skip
SIGN_IN = {"sign_in_addresses", "used_sign_ins"}


def _entries(live):
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    found = re.findall(r'^rlvitals_cached_entries\{cache="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {name: int(float(size)) for name, size in found}


def _batch(run, step):
    """Return a step of a run with a summary, a response and signals of names that no other run has."""
    scalars = {f"{run}/{'s' * place}{step}": 0.5 for place in range(1, 9 + step)}
    plain = wire.Record(step=2 * step, scalars=scalars)
    rich = wire.Record(
        step=2 * step + 1,
        summaries={"loss": wire.Moments(count=1, sum=1.0)},
        responses=[sampled(text="t")],
    )
    return wire.encode(
        wire.Batch(
            schema_version=wire.SCHEMA_VERSION,
            run=run,
            records=[msgspec.Raw(wire.encode(record)) for record in (plain, rich)],
        )
    )


@pytest.fixture
def live(start_collector, scripted, clock, monkeypatch):
    """A collector whose caches have room for three runs."""
    for module, name in BOUNDS:
        monkeypatch.setattr(module, name, BOUND)
    monkeypatch.setattr(records, "MAX_CACHED_NAMES", NAMES_BOUND)
    return start_collector(engine=scripted, clock=clock, retention_seconds=0.02, max_name_chars=77, response_steps=1)


def test_no_cache_grows_beyond_its_bound(live):
    """Five runs take turns: nothing is lost, and the sizes on `/metrics` are at most the bound."""
    rule = {"name": "high", "condition": "threshold", "signal": "reward/mean", "operator": ">", "value": 1.0}
    made = live.pool.request("POST", f"{live.url}/api/v1/rules", json={"rule": rule, "by": "ann"})
    assert made.status == 200, made.data
    largest = {}
    for step in range(3):
        for run in map(str, range(RUNS)):
            answer = live.post(_batch(run, step), media_type=wire.MSGPACK)
            assert answer.status == 200, answer.data
            for name, size in _entries(live).items():
                largest[name] = max(largest.get(name, 0), size)
    assert {name for name, size in largest.items() if size == BOUND} >= FULL, largest
    unbounded_here = {"detector_runs", "rule_runs"}
    assert largest.pop("valid_names") <= NAMES_BOUND
    assert max(size for name, size in largest.items() if name not in unbounded_here) == BOUND, largest
    for run in live.get("/runs")["items"]:
        assert run["last_step"] == 5


def test_the_page_names_each_cache(live):
    """The table of docs/operations.md has a row for each."""
    page = Path("docs/operations.md").read_text(encoding="utf-8")
    rows = {
        name
        for row in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    assert _entries(live).keys() == FULL | OTHERS
    assert rows >= FULL | OTHERS | SIGN_IN


def test_threads_that_wait_to_write_are_counted(start_collector):
    """Those of a SQLite file wait for each other; the wait is limited to 12 s."""
    live = start_collector()
    with ThreadPoolExecutor() as sender:
        with live.app.state.collector.store.write():
            answer = sender.submit(live.post, _batch("r", 0), media_type=wire.MSGPACK)
            eventually(lambda: _entries(live)["waiting_writes"] >= 1)
        assert answer.result().status == 200
    eventually(lambda: _entries(live)["waiting_writes"] == 0)
