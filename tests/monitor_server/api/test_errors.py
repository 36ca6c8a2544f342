"""One error shape, on every path that can fail; and the description of the API is valid."""

import json
import threading

import pytest

from monitor_server import errors

PATHS = [
    "/runs", "/runs/groups", "/runs/rows", "/runs/{run_id}", "/runs/{run_id}/series", "/runs/{run_id}/steps",
    "/runs/{run_id}/phases", "/runs/{run_id}/forecast", "/runs/{run_id}/warranty", "/runs/{run_id}/marks",
    "/runs/{run_id}/expected-ranges",
    "/runs/{run_id}/responses", "/runs/{run_id}/actions", "/runs/{run_id}/alerts", "/alerts", "/alerts/{alert_id}",
    "/alerts/{alert_id}/attribution", "/alerts/{alert_id}/incident", "/alerts/{alert_id}/ack",
    "/alerts/{alert_id}/actions", "/alerts/{alert_id}/judgement", "/runs/{run_id}/judgements",
    "/alerts/{alert_id}/history", "/alerts/{alert_id}/comments", "/silences", "/silences/{silence_id}/end",
    "/runs/{run_id}/acknowledgements", "/rules", "/rules/apply", "/rules/dry-run", "/rules/{rule_id}",
    "/runs/{run_id}/rules", "/runs/{run_id}/response-pairs", "/view", "/views", "/views/{view_id}",
    "/runs/{run_id}/attempts", "/runs/{run_id}/reset",
    "/projects/{name}", "/runs/{run_id}/export", "/export", "/stream", "/ingest",
    "/keys", "/keys/{key}", "/audit", "/status", "/session", "/session/methods", "/session/oidc",
    "/session/oidc/callback", "/sample", "/sample/ablation",
    "/notifications/channels", "/notifications/check", "/notifications/links/end", "/notifications/reload",
    "/notifications/channels/{name}/test", "/notifications/settings", "/notifications/settings/versions",
    "/notifications/settings/versions/{version}/restore", "/retention", "/retention/preview",
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"reason": ', 422, "the body must be JSON, got an error at character 11: Expecting value"),
        (b'{"ends_at": %s}' % (b"9" * 4_301), 400, "whose integers have at most 4300 digits"),
        (b"[" * 100_000, 400, "nested at most some hundred deep"),
        (b'{"reason": "\xff"}', 400, "the body must be JSON text in UTF-8"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_what_must_hold(collector, body, status, says):
    """It is refused before any field is read, by words of our own."""
    headers = {"Content-Type": "application/json"}
    answer = collector.pool.request("POST", f"{collector.url}/api/v1/silences", body=body, headers=headers)
    assert answer.status == status
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/api/v1/runs/nobody", 404, "UnknownRun"),
        ("GET", "/api/v1/runs/nobody/series", 404, "UnknownRun"),
        ("GET", "/api/v1/runs/nobody/steps", 404, "UnknownRun"),
        ("GET", "/api/v1/runs/nobody/phases", 404, "UnknownRun"),
        ("GET", "/api/v1/runs/nobody/alerts", 404, "UnknownRun"),
        ("GET", "/api/v1/nothing", 404, "UnknownPath"),
        ("GET", "/api/v2/runs", 404, "UnknownPath"),
        ("GET", "/api/", 404, "UnknownPath"),
        ("POST", "/api/nothing", 404, "UnknownPath"),
        ("GET", "/nothing", 404, "UnknownPath"),
        ("GET", "/api/v1/ingest", 405, "MethodNotAllowed"),
        ("PATCH", "/api/v1/runs/nobody", 422, "InvalidField"),
        ("DELETE", "/api/v1/runs", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/alerts", 405, "MethodNotAllowed"),
        ("POST", "/healthz", 405, "MethodNotAllowed"),
        ("POST", "/metrics", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/ingest", 415, "UnsupportedMediaType"),
        ("GET", "/api/v1/runs?limit=0", 422, "InvalidField"),
        ("GET", "/api/v1/runs?limit=many", 422, "InvalidField"),
        ("GET", "/api/v1/runs?status=dead", 422, "InvalidField"),
        ("GET", "/api/v1/runs?cursor=abc", 422, "InvalidField"),
        ("GET", "/api/v1/runs?cursor=99999999999999999999", 422, "InvalidField"),
        ("GET", "/api/v1/alerts?severity=fatal", 422, "InvalidField"),
        ("GET", "/api/v1/runs/nobody/series?max_points=1", 422, "InvalidField"),
        ("GET", "/api/v1/runs/nobody/steps?from_step=-1", 422, "InvalidField"),
    ],
)
def test_every_error_has_the_one_shape(collector, method, path, status, error):
    """The answer has a status, an error class and a message, and never a page or a traceback."""
    answer = collector.pool.request(method, collector.url + path)
    body = answer.json()
    assert (answer.status, body["error"]) == (status, error)
    assert set(body) == {"error", "detail"}
    assert body["detail"]
    assert not body["detail"].endswith(".")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/silences", {str(number): 1 for number in range(50_000)}),
        ("/retention/preview", {"limits": {str(number): 1 for number in range(50_000)}}),
        ("/rules/dry-run", {"run_id": "r", "rule": {str(number): 1 for number in range(50_000)}}),
    ],
)
def test_an_object_of_many_fields_is_one_error(collector, path, body):
    """An error for each of them would occupy the event loop for seconds."""
    headers = {"Content-Type": "application/json"}
    answer = collector.pool.request("POST", f"{collector.url}/api/v1{path}", body=json.dumps(body), headers=headers)
    assert answer.status == 422
    assert "must have at most 64 fields, got 50000" in answer.json()["detail"]


def test_a_failure_of_ours_has_the_shape_too(start_collector):
    """An unexpected exception is a 500 that reveals no internals."""
    live = start_collector()
    live.app.state.collector.store.read = None
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs")
    assert (answer.status, answer.json()["error"]) == (500, "InternalError")
    assert "Traceback" not in answer.data.decode()


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("a defect"), 500), (MemoryError(), 503)])
def test_only_a_lack_of_memory_or_threads_is_to_be_sent_again(start_collector, error, status):
    """Another RuntimeError is a failure of ours."""

    def fail(**_):
        raise error

    live = start_collector()
    live.app.state.collector.store.read = fail
    assert live.pool.request("GET", f"{live.url}/api/v1/runs").status == status


def test_a_collector_that_gets_no_further_thread_says_what_to_raise(start_collector, caplog):
    """Requests are to be sent again, it is not ready, its log has one line, and a refused batch is a fault."""
    live = start_collector()
    size = threading.stack_size(1 << 46)  # more than there is memory, so that no thread can start
    try:
        large = {"schema_version": 1, "run": "r", "records": [{"step": 1, "scalars": {"a" * 500_000: 1.0}}]}
        answers = [live.pool.request("GET", f"{live.url}/api/v1/runs/nobody")]
        answers += [live.pool.request("POST", f"{live.url}/api/v1/ingest", json=large) for _ in range(2)]
        answers += [live.pool.request("GET", f"{live.url}/readyz")]
    finally:
        threading.stack_size(size)
    for answer in answers:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert "no more threads; raise their limit, such as ulimit -u" in answer.json()["detail"]
    assert caplog.text.count("a request could not be answered") == 1
    assert live.get("/status")["refused_batches"]["error"] == 2


def test_the_tree_in_the_docstring_names_every_error():
    """The drawing in the docstring has every error class."""
    missing = [name for name in errors.__all__ if name[0].isupper() and name not in (errors.__doc__ or "")]
    assert missing == []


def test_the_api_describes_itself(collector):
    """OpenAPI names every path of docs/api.md with a typed success answer."""
    document = collector.pool.request("GET", f"{collector.url}/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert {f"/api/v1{path}" for path in PATHS} | {"/healthz", "/readyz", "/metrics"} == set(document["paths"])
    references = [part["$ref"] for part in _objects(document) if "$ref" in part]
    for reference in references:
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert {"200", "202", "303"} & operation["responses"].keys(), path
    assert collector.pool.request("GET", f"{collector.url}/docs").status == 200


def _objects(node):
    if isinstance(node, dict):
        yield node
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from _objects(child)
