"""Traces and metrics reach a real OTLP receiver on the loopback, and nobody waits for a receiver that hangs."""

import contextlib
import gzip
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from monitor_server.app import create_app
from monitor_server.errors import StartupError
from monitor_server.settings import Settings
from tests.live import eventually
from tests.monitor_server.notifications.receivers import SECRET, receiving, webhook, written

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Endpoint:
    """An OTLP receiver that decodes its requests; while ``is_open`` is not set it answers nothing."""

    def __init__(self):
        self.requests = []
        self.bodies = []
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()

    def spans(self):
        """Return all spans by name, each as its attributes with its ids and its status."""
        found = {}
        for request in list(self.requests):
            for resource in getattr(request, "resource_spans", ()):
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    values = {each.key: _value(each.value) for each in span.attributes}
                    own = {"trace": span.trace_id, "id": span.span_id, "parent": span.parent_span_id}
                    own |= {"status": span.status.code, "message": span.status.message}
                    found.setdefault(span.name, []).append(values | own)
        return found

    def metrics(self):
        """Return the newest of each metric by name, and the resource that it came from."""
        found = {}
        for request in list(self.requests):
            for resource in getattr(request, "resource_metrics", ()):
                names = {each.key: _value(each.value) for each in resource.resource.attributes}
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    found[metric.name] = (metric, names)
        return found


def _value(given):
    return getattr(given, given.WhichOneof("value"))


@pytest.fixture
def is_running():
    """Return whether a collector of this test still runs; an earlier one of the session does not count."""
    before = threading.enumerate()
    return lambda: any(each.name == "collector" and each not in before for each in threading.enumerate())


@pytest.fixture
def endpoint(monkeypatch):
    """A receiver that the standard variables name; batches are sent every 50 ms.

    Tests ask for it before their collector, which is then stopped while it still answers: without it, a stop takes
    seconds.
    """
    found, before = Endpoint(), threading.enumerate()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.is_asked.set()
            found.is_open.wait()
            found.bodies.append(body)
            found.requests.append(KINDS[self.path].FromString(body))
            with contextlib.suppress(OSError):  # the collector may have gone
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_):
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    try:
        yield found
    finally:
        found.is_open.set()
        _wait_for_exporters(before)
        server.shutdown()
        thread.join()
        server.server_close()


def _wait_for_exporters(before):
    """Wait until no new thread exports.

    An exporter without a receiver tries again until its timeout ends, and draws from `random` before each try. A test
    of hypothesis that runs meanwhile fails, because hypothesis forbids such draws to its strategies.
    """
    names = ("OtelBatch", "rlvitals-otlp")
    eventually(lambda: not any(each.name.startswith(names) for each in threading.enumerate() if each not in before))


def test_spans_of_request_append_projection_and_notification_arrive(
    endpoint, start_collector, scripted, tmp_path, monkeypatch
):
    """The append is the child of its request, which continues the client's trace; ids and names are attributes."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-collector")
    with receiving() as receiver:
        at_once = "[grouping]\nwait_seconds = 0\nwindow_seconds = 0\n"
        route = '[[routes]]\nchannels = ["hook"]\n'
        path = written(tmp_path, webhook("hook", receiver.url), at_once, route)
        live = start_collector(engine=scripted, notifications=path, opentelemetry=True)
        trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        body = b'{"schema_version": 1, "run": "r", "records": [{"step": 1, "scalars": {"page": 1.0}}]}'
        answer = live.pool.request(
            "POST", f"{live.url}/api/v1/ingest", body=body,
            headers={
                "Content-Type": "application/json", "X-Request-Id": "from-the-client",
                "traceparent": f"00-{trace}-{parent}-01",
            },
        )  # fmt: skip
        assert answer.status == 200
        live.get("/runs")
        wanted = {"POST /api/v1/ingest", "GET /api/v1/runs", "append batch", "project slice", "notify"}
        eventually(lambda: wanted <= endpoint.spans().keys())
    spans = endpoint.spans()
    (request,) = spans["POST /api/v1/ingest"]
    assert (request["trace"].hex(), request["parent"].hex()) == (trace, parent)
    assert request["rlvitals.request_id"] == "from-the-client"
    assert (request["http.response.status_code"], request["http.request.method"]) == (200, "POST")
    (append,) = spans["append batch"]
    assert (append["parent"], append["trace"]) == (request["id"], request["trace"])
    run_id = answer.json()["run_id"]
    assert (append["rlvitals.run_id"], append["rlvitals.records"]) == (run_id, 1)
    assert {span["rlvitals.run_id"] for span in spans["project slice"]} >= {run_id}
    assert spans["notify"][0]["rlvitals.channel"] == "hook"
    eventually(lambda: endpoint.metrics().get("rlvitals_ingest_records"))
    assert endpoint.metrics()["rlvitals_ingest_records"][1]["service.name"] == "our-collector"


def test_the_metrics_are_those_that_prometheus_scrapes(endpoint, start_collector, scripted, monkeypatch):
    """A counter, a gauge with labels and a histogram have the values of /metrics, and the service has our name."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=mine")
    live = start_collector(engine=scripted, opentelemetry=True)
    live.send(run="r", project="p", records=[{"step": step, "scalars": {"a": 2.5}} for step in range(3)])

    def points(name):
        metric, _ = endpoint.metrics()[name]
        return list(getattr(metric, metric.WhichOneof("data")).data_points)

    eventually(lambda: "rlvitals_signal" in endpoint.metrics() and points("rlvitals_ingest_records")[0].as_double == 3)
    (signal,) = points("rlvitals_signal")
    labels = {each.key: each.value.string_value for each in signal.attributes}
    assert (labels, signal.as_double) == ({"project": "p", "run": "r", "signal": "a"}, 2.5)
    (ingest,) = points("rlvitals_ingest_seconds")
    assert (ingest.count, sum(ingest.bucket_counts)) == (1, 1)
    assert len(ingest.bucket_counts) == len(ingest.explicit_bounds) + 1
    assert not ingest.HasField("max")
    metric, resource = endpoint.metrics()["rlvitals_ingest_records"]
    assert metric.sum.is_monotonic
    assert (resource["service.name"], resource["service.version"]) == ("rlvitals", "mine")
    assert (metric.unit, endpoint.metrics()["rlvitals_ingest_seconds"][0].unit) == ("", "s")


def test_no_secret_is_exported(endpoint, start_collector, scripted, tmp_path):
    """The export has no key, no text of a path or a query, no text of an error, and no address of a channel."""
    with receiving() as receiver:
        receiver.answer = lambda _: 500
        route = '[grouping]\nwait_seconds = 0\n[[routes]]\nchannels = ["hook"]\n'
        path = written(tmp_path, webhook("hook", f"{receiver.url}/secret-path"), route)
        live = start_collector(engine=scripted, notifications=path, opentelemetry=True)
        live.send(run="r", records=[{"step": 1, "scalars": {"page": 1.0}}])
        collector = live.app.state.collector
        with collector.store.write() as repositories:
            key, _ = create_key(
                repositories, name="k", scope=Scope.READ, project=None, expires_at=None,
                author=Caller(name="a", scope=Scope.ADMIN), now=collector.clock(),
            )  # fmt: skip
        collector.keys.read()
        headers = {"Authorization": f"Bearer {key}"}
        for place in ("/api/v1/runs/secret-path?token=secret-path", "/api/v1/secret-path", "/secret-path"):
            live.pool.request("GET", f"{live.url}{place}", headers=headers)
        live.pool.request("POST", f"{live.url}/api/v1/keys", body=b"secret-path", headers=headers)
        eventually(lambda: any(span["status"] for span in endpoint.spans().get("notify", ())))
        eventually(
            lambda: (
                len(endpoint.spans().get("GET", ())) + len(endpoint.spans().get("GET /api/v1/runs/{run_id}", ())) >= 2
            )
        )
    exported = b"".join(endpoint.bodies)
    for secret in (key, "secret-path", SECRET, receiver.url):
        assert secret.encode() not in exported


def test_an_endpoint_that_hangs_is_waited_for_by_nobody(is_running, start_collector, scripted, endpoint, monkeypatch):
    """Batches are acknowledged and the collector stops while the endpoint still holds its first request."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    endpoint.is_open.clear()
    live = start_collector(engine=scripted, opentelemetry=True)
    live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    assert endpoint.is_asked.wait(60)
    for step in range(1, 40):
        live.send(run="r", records=[{"step": step, "scalars": {"a": 1.0}}])
    live.server.should_exit = True
    eventually(lambda: not is_running())
    assert endpoint.requests == []


def test_an_endpoint_that_is_dead_costs_no_batch(is_running, start_collector, scripted, unused_port, monkeypatch):
    """No receiver listens: batches are acknowledged, and the collector stops."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    before = threading.enumerate()
    live = start_collector(engine=scripted, opentelemetry=True)
    for step in range(20):
        live.send(run="r", records=[{"step": step, "scalars": {"a": 1.0}}])
    live.server.should_exit = True
    eventually(lambda: not is_running())
    _wait_for_exporters(before)


@pytest.mark.parametrize(
    ("variable", "spans", "metrics"),
    [("OTEL_TRACES_EXPORTER", False, True), ("OTEL_METRICS_EXPORTER", True, False)],
)
def test_traces_or_metrics_can_be_left_out(
    is_running, start_collector, endpoint, monkeypatch, variable, *, spans, metrics
):
    """The standard variables leave them out, in the forms that the check of these variables accepts."""
    monkeypatch.setenv(variable, "None ")
    live = start_collector(opentelemetry=True)
    live.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
    eventually(lambda: endpoint.requests)
    live.server.should_exit = True
    eventually(lambda: not is_running())
    assert (bool(endpoint.spans()), bool(endpoint.metrics())) == (spans, metrics)


def test_without_the_setting_nothing_of_it_is_imported(tmp_path):
    """Neither the SDK nor the exporter is imported, so a collector without the export has no cost."""
    program = """
import sys
from monitor_server.app import create_app
from monitor_server.settings import Settings
create_app(Settings(database_url="sqlite:///none.db", dashboard=""))
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    """The start ends, and names what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    for module in [name for name in sys.modules if name.startswith("monitor_server.exposition.open_telemetry")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(StartupError, match=r"install rlvitals\[otel\]"):
        create_app(Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", dashboard="", opentelemetry=True))
