"""Requests that a browser may be made to send: foreign names, foreign pages, forms, and endless bodies."""

import contextlib
import json
import socket

import pytest

from monitor_server.errors import StartupError
from monitor_server.http_server.host_policy import WILDCARDS, HostPolicy
from monitor_server.settings import Settings
from tests.databases import execute
from tests.live import PATIENCE_SECONDS, serving
from tests.monitor_server.conftest import ScriptedEngine

OWN = [
    "127.0.0.1",
    "127.0.0.1:{port}",
    "localhost",
    "LOCALHOST:{port}",
    "localhost.:{port}",
    "[::1]:{port}",
    "10.0.0.7",
]
FOREIGN = [
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example",
    "evil.localhost.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "localhost:{port}@evil.example",
    "localhost:{port}:80",
    "2130706433",
    "0x7f.1",
    "",
    "local host",
    "[::1].evil.example",
]


@pytest.fixture(scope="module")
def scripted_collector(migrated_sqlite, tmp_path_factory):
    """A collector whose detectors find what the signals state; tests keep apart by the names of their runs."""
    database = migrated_sqlite(tmp_path_factory.mktemp("collector"))
    settings = Settings(database_url=database, dashboard="", verdict_wait_seconds=PATIENCE_SECONDS)
    with serving(settings, engine=ScriptedEngine) as live:
        yield live


@pytest.fixture
def alert(scripted_collector, run_name):
    """A collector and the path of an alert that nobody has acknowledged."""
    run_id = scripted_collector.run(run=run_name, records=[{"step": 1, "scalars": {"warn": 1.0}}])
    (found,) = scripted_collector.get(f"/runs/{run_id}/alerts")["items"]
    return scripted_collector, f"/alerts/{found['id']}"


def port_of(live):
    return live.url.rpartition(":")[2]


def error_of(answer):
    body = answer.json()
    assert set(body) == {"error", "detail"}
    return answer.status, body["error"]


@pytest.mark.parametrize("host", OWN)
def test_a_name_of_this_server_is_accepted(collector, host):
    """Any address, because DNS rebinding needs a name, and localhost; with a port or without."""
    headers = {"Host": host.format(port=port_of(collector))}
    assert collector.pool.request("GET", f"{collector.url}/healthz", headers=headers).status == 200


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/api/v1/runs", "/docs", "/metrics", "/nothing"])
def test_a_foreign_name_is_refused_on_every_path(collector, host, path):
    """A page of a foreign name that points to this machine (DNS rebinding) reads nothing."""
    headers = {"Host": host.format(port=port_of(collector))}
    answer = collector.pool.request("GET", collector.url + path, headers=headers)
    assert error_of(answer) == (421, "UnknownHost")
    assert "RLVITALS_ALLOWED_HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize("lines", [b"", b"Host: localhost\r\nHost: evil.example\r\n"])
def test_one_host_must_be_named(collector, lines):
    """A request without a Host header, or with two, is refused."""
    head = exchange(collector, b"GET /api/v1/runs HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))


def test_one_caller_must_be_named(collector):
    """Of two ``Authorization`` headers, a proxy may read the other one; the answer says so and repeats neither."""
    lines = b"Host: localhost\r\nAuthorization: Bearer one\r\nauthorization: Bearer two\r\nConnection: close\r\n\r\n"
    answer = exchange(collector, b"GET /api/v1/runs HTTP/1.1\r\n" + lines)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"at most one Authorization header, got 2" in answer
    assert b"Bearer" not in answer


def test_names_are_added_by_a_setting(start_collector):
    """A name, every name below a domain, and nothing else."""
    live = start_collector(allowed_hosts="collector, .gpu.example")
    statuses = {
        host: live.pool.request("GET", f"{live.url}/healthz", headers={"Host": host}).status
        for host in ("collector:8600", "a.gpu.example", "gpu.example", "notgpu.example", "a.gpu.example.evil")
    }
    assert statuses == {
        "collector:8600": 200,
        "a.gpu.example": 200,
        "gpu.example": 421,
        "notgpu.example": 421,
        "a.gpu.example.evil": 421,
    }


def test_a_wildcard_address_allows_no_name_by_itself():
    """A server on all addresses is reached by its addresses, its own name, and the names that it is given."""
    assert not HostPolicy.of(bound_to=WILDCARDS[0]).allows("evil.example")
    assert HostPolicy.of(bound_to=WILDCARDS[0]).allows(socket.gethostname())
    assert HostPolicy.of(bound_to="gpu-7.example").allows("gpu-7.example:8600")
    assert HostPolicy.of(bound_to="::", allowed=["vitals.example.org."]).allows("vitals.example.org:8600")
    for name in ("*.example.org", "https://vitals.example.org", "vitals.example.org:8600", ".", "..example.org"):
        with pytest.raises(StartupError, match="RLVITALS_ALLOWED_HOSTS must be names"):
            HostPolicy.of(bound_to="::", allowed=[name])
    assert HostPolicy.of(bound_to="::", allowed=["*"]).allows("evil.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Origin": "http://{host}.evil.example"},
        {"Origin": "http://evil.example/{host}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
@pytest.mark.parametrize("body", [None, b"{}"])
def test_a_page_of_another_origin_changes_nothing(alert, headers, body):
    """The request is refused with and without a body; another port of this machine is another origin."""
    live, path = alert
    host = live.url.removeprefix("http://")
    given = {name: value.format(host=host) for name, value in headers.items()}
    given |= {"Content-Type": "application/json"} if body else {}
    answer = live.pool.request("POST", f"{live.url}/api/v1{path}/ack", headers=given, body=body)
    assert error_of(answer) == (403, "ForeignOrigin")
    assert live.get(path)["acknowledged_at"] is None


def test_ingest_is_refused_to_a_foreign_page(collector, run_name):
    """Ingest follows the same rule as every other route that changes something."""
    body = json.dumps({"schema_version": 1, "run": run_name, "records": []}).encode()
    headers = {"Content-Type": "application/json", "Origin": "https://evil.example"}
    answer = collector.pool.request("POST", f"{collector.url}/api/v1/ingest", body=body, headers=headers)
    assert error_of(answer) == (403, "ForeignOrigin")


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://{host}"}, {"Origin": "http://{host}", "Sec-Fetch-Site": "same-origin"}],
)
@pytest.mark.parametrize("body", [None, b'{"by": "me"}'])
def test_our_own_page_and_the_command_line_may(alert, headers, body):
    """A browser on our page sends our origin; a client that is no browser sends none."""
    live, path = alert
    host = live.url.removeprefix("http://")
    given = {name: value.format(host=host) for name, value in headers.items()}
    given |= {"Content-Type": "application/json"} if body else {}
    assert live.pool.request("POST", f"{live.url}/api/v1{path}/ack", headers=given, body=body).status == 200


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
@pytest.mark.parametrize("body", [b"", b"{}", b"by=me"])
def test_a_form_changes_nothing(alert, media_type, body):
    """A request that a form can send without a preflight is refused by its media type, also with an empty body."""
    live, path = alert
    headers = {"Content-Type": media_type}
    answer = live.pool.request("POST", f"{live.url}/api/v1{path}/ack", body=body, headers=headers)
    assert error_of(answer) == (415, "UnsupportedMediaType")
    assert live.get(path)["acknowledged_at"] is None


@pytest.mark.parametrize(
    ("mode", "dest", "status"),
    [
        ("navigate", "document", 200),
        ("navigate", "iframe", 403),
        ("no-cors", "script", 403),
        ("no-cors", "image", 403),
        ("cors", "empty", 403),
    ],
)
def test_a_foreign_page_opens_ours_and_loads_nothing_from_it(collector, mode, dest, status):
    """A link leads here; an image, a script, a frame or a fetch of a foreign page does not."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert collector.pool.request("GET", f"{collector.url}/api/v1/runs", headers=headers).status == status


@pytest.mark.parametrize("path", ["/api/v1/runs", "/healthz", "/metrics", "/docs", "/nothing", "/api/v1/nothing"])
def test_every_response_forbids_frames_sniffing_and_foreign_scripts(collector, path):
    """Error answers have the same headers."""
    headers = collector.pool.request("GET", collector.url + path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_a_failure_of_ours_carries_the_headers_too(start_collector, database_url):
    """The last handler of errors stands inside the security middleware."""
    live = start_collector()
    live.run(run="r", records=[{"step": 0}])
    execute(database_url, dict.fromkeys(("sqlite", "postgresql"), "UPDATE runs SET tags = 'damaged'"))
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs")
    assert (answer.status, answer.headers["X-Frame-Options"]) == (500, "DENY")


READING = ["/api/v1/alerts/none/ack", "/_dash-update-component"]
NOT_READING = ["/api/v1/runs", "/api/v1/nothing", "/healthz", "/runs/x"]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_every_route_stops_reading_at_the_limit(start_collector, is_chunked):
    """A body of a megabyte more than allowed is refused before it is sent; without a length, while it is read."""
    live = start_collector(max_request_bytes=10_000, dashboard="dashboard.app:attach")
    host, port = live.url.removeprefix("http://").split(":")
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: 1048576"
    for path in READING if is_chunked else READING + NOT_READING:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(head + length + b"\r\n\r\n")
            # The limit may have ended the connection before the last part, and the answer can still be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(3 if is_chunked else 0):
                    connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
            answer = connection.recv(65536)
            while b"}" not in answer and (more := connection.recv(65536)):
                answer += more
        assert answer.startswith(b"HTTP/1.1 413"), (path, answer)
        assert b"BodyTooLarge" in answer


@pytest.mark.parametrize("length", [b"-1", b"abc", b"1e3", b"9" * 30, b"10, 10"])
def test_a_length_that_is_no_length_is_refused(collector, length):
    """The server or the route refuses it, whichever reads it first."""
    request = b"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    answer = exchange(collector, request + length + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413")), answer  # an empty body would be answered 422


def exchange(live, request):
    """Send bytes, and return the answer until the other side closes."""
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request)
        return connection.recv(65536)
