"""Clients that send nothing, too slowly, without end, or do not read: each is closed, and others are served."""

import contextlib
import json
import logging
import re
import resource
import socket
import time

import pytest
import urllib3

from monitor_server.http_server import connections as connections_
from monitor_server.http_server.connections import ConnectionLimits, ReadingTime
from tests.live import eventually

ACK = b"POST /api/v1/alerts/none/ack HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.contextmanager
def connected(live, address="127.0.0.1", *, receive_bytes=None):
    host, port = live.url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        connection.settimeout(60)
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.bind((address, 0))
        connection.connect((host, int(port)))
        yield connection


def is_held(live, client):
    """Return whether the server has a connection of the client with this address."""
    return client in [held.client for held in live.server.config.connections.open]


def long_answer(live):
    """Send a run whose configuration has a megabyte, and return the request for it."""
    run_id = live.run(run="r", config={"text": "x" * 1_000_000}, records=[{"step": 0, "scalars": {"a": 1.0}}])
    return f"GET /api/v1/runs/{run_id} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def is_served(live):
    with urllib3.PoolManager(retries=False, timeout=30) as pool:
        return pool.request("GET", f"{live.url}/healthz").status == 200


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: local",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ACK + b"Content-Length: 100\r\n\r\n{",
        ACK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
    ids=["nothing", "half a head", "nothing more", "half a body", "half a chunked body", "half a second head"],
)
def test_a_silent_client_is_closed(start_collector, first):
    """The server closes the connection at whatever point the client has stopped."""
    live = start_collector(idle_timeout_seconds=0.3, request_timeout_seconds=0.4)
    # A client that is late itself may be closed before it has sent anything.
    with connected(live) as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(first)
        while connection.recv(65536):
            pass


def test_a_body_may_come_later_than_a_head(start_collector):
    """A request has its own time from its head on, also where that ends after the time of a silent connection."""
    live = start_collector(idle_timeout_seconds=1.0, request_timeout_seconds=60)
    with connected(live) as connection:
        connection.sendall(ACK + b"Content-Length: 2\r\n\r\n{")
        time.sleep(1.5)
        connection.sendall(b"}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_silent_clients_shut_nobody_out(start_collector, caplog):
    """The connection that has waited longest makes room for the next, and the log has a line of it."""
    live = start_collector(max_connections=20)
    with contextlib.ExitStack() as stack, caplog.at_level(logging.WARNING):
        for _ in range(60):
            stack.enter_context(connected(live))
        assert is_served(live)
        (line,) = {record.message for record in caplog.records if "connections are open" in record.message}
    assert "RLVITALS_MAX_CONNECTIONS" in line


def test_half_sent_requests_shut_nobody_out(start_collector):
    """Requests whose bodies never end do not block other clients."""
    live = start_collector(max_connections=20)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connected(live)).sendall(ACK + b"Content-Length: 100\r\n\r\n{")
        assert is_served(live)


def test_half_sent_requests_behind_whole_ones_shut_nobody_out(start_collector):
    """Once the whole request is answered, the client is one that the server waits for."""
    live = start_collector(max_connections=4)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            connection = stack.enter_context(connected(live))
            connection.sendall(HEAD.replace(b"/ ", b"/healthz ") + b"\r\n" + ACK + b"Content-Length: 100\r\n\r\n{")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert is_served(live)


def test_streams_leave_room_for_others(start_collector):
    """Streams that stay open take half of the connections at most; the next request gets 503 with a time to retry."""
    live = start_collector(max_connections=20)
    statuses = []
    with contextlib.ExitStack() as stack:
        for _ in range(15):
            connection = stack.enter_context(connected(live))
            connection.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses.append(int(connection.recv(65536).split()[1]))
        assert is_served(live)
    assert sorted(statuses) == [200] * 10 + [503] * 5


def test_the_streams_of_one_client_leave_room_for_those_of_others(start_collector):
    """One address may have three streams here; another address has its own limit, and a closed stream frees a place."""
    live = start_collector(max_streams_per_client=3)
    listening = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        greedy = [stack.enter_context(connected(live)) for _ in range(5)]
        for connection in greedy:
            connection.sendall(listening)
        answers = [connection.recv(65536) for connection in greedy]
        assert sorted(int(answer.split()[1]) for answer in answers) == [200] * 3 + [503] * 2
        assert b"RLVITALS_MAX_STREAMS_PER_CLIENT" in b"".join(answers)
        other = stack.enter_context(connected(live, address="127.0.0.2"))
        other.sendall(listening)
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        greedy[next(place for place, answer in enumerate(answers) if b" 200 " in answer)].close()

        def is_free():
            with connected(live) as again:
                again.sendall(listening)
                return again.recv(65536).startswith(b"HTTP/1.1 200")

        eventually(is_free)


def test_clients_that_leave_answers_unread_make_room_for_others(start_collector):
    """All connections belong to clients that ask for much and read nothing; the next client is served."""
    live = start_collector(max_connections=4, write_timeout_seconds=600, max_config_bytes=2_000_000)
    held = live.server.config.connections
    get = long_answer(live) * 40
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            connection = stack.enter_context(connected(live))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(get)
        eventually(lambda: len(held.unread) == 4)
        assert not held.awaited
        assert is_served(live)


def test_where_no_connection_waits_the_next_is_asked_to_come_back(start_collector, caplog):
    """The next connection gets 503 in the one error shape, and the log has a line."""
    live = start_collector(max_connections=1, max_streams=1)
    with connected(live) as stream:
        stream.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        with connected(live) as refused, caplog.at_level(logging.WARNING):
            answer = refused.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"] == "Unavailable"
    assert [record for record in caplog.records if "1 new ones were refused" in record.message]


@pytest.mark.parametrize(
    "endless",
    [
        b"GET /" + b"a" * 400_000,
        HEAD + b"X: " + b"a" * 400_000,
        HEAD + b"X: a\r\n" * 60_000,
        ACK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: " + b"a" * 400_000,
    ],
    ids=["path", "header", "headers", "trailer"],
)
def test_a_head_without_end_is_refused(start_collector, endless):
    """The part of a request before its body is bounded."""
    live = start_collector()
    with connected(live) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(endless)
        with contextlib.suppress(ConnectionResetError):
            answer = connection.recv(65536)
            assert answer.split()[1] in (b"431", b"400", b"404")
            assert b"retry-after" not in answer  # sent again, it would be refused again
    assert is_served(live)


def test_of_requests_that_do_not_wait_for_answers_a_bounded_number_is_taken(start_collector):
    """Of 5,000 requests in one write 17 are read; those are answered, and the connection is closed."""
    live = start_collector()
    with connected(live) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)
        answers = b""
        with contextlib.suppress(ConnectionResetError):
            while received := connection.recv(65536):
                answers += received
    assert answers.count(b"HTTP/1.1 200 OK") == answers.count(b"HTTP/1.1 ") == 17
    assert answers.count(b"connection: close") == 1
    assert is_served(live)


def test_a_few_requests_may_be_sent_at_once(start_collector):
    """Ten requests in one write are answered in their order, and the connection stays open."""
    live = start_collector()
    names = [b"r%d" % number for number in range(10)]
    asked = b"".join(b"GET /api/v1/runs/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % name for name in names)
    with connected(live) as connection:
        for _ in range(3):
            connection.sendall(asked)
            answers = b""
            while answers.count(b"HTTP/1.1 404") < 10 or not answers.endswith(b"}"):
                received = connection.recv(65536)
                assert received
                answers += received
            assert re.findall(rb"'(r\d)'", answers) == names


def test_who_does_not_read_is_closed(start_collector):
    """A client that does not read its answer is closed, so that the answer is not kept for ever."""
    live = start_collector(write_timeout_seconds=0.3, max_config_bytes=2_000_000)
    get = long_answer(live)
    with connected(live) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        local = connection.getsockname()
        eventually(lambda: is_held(live, local))  # before the request, whose answer may end the connection at once
        connection.sendall(get * 10)
        eventually(lambda: not is_held(live, local))


def leave_the_end_unread(live, connection):
    """Ask until a part of an answer stays in the server, less than asyncio counts as much; return its side, and ask."""
    run_id = live.run(run="r", config={"text": "x" * 10_000}, records=[{"step": 0, "scalars": {"a": 1.0}}])
    local = connection.getsockname()
    eventually(lambda: is_held(live, local))
    (server_side,) = [held for held in live.server.config.connections.open if held.client == local]
    server_side.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def ask(*headers):
        before = server_side.cycle
        lines = [f"GET /api/v1/runs/{run_id} HTTP/1.1", "Host: localhost", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode())
        eventually(lambda: server_side.cycle is not before and server_side.cycle.response_complete)

    while not server_side.transport.get_write_buffer_size():
        ask()
    return server_side, ask


def test_who_leaves_the_end_of_a_last_answer_unread_is_closed(start_collector):
    """An answer that ends the connection may be in the server for as long as any other."""
    live = start_collector(write_timeout_seconds=0.5)
    with connected(live, receive_bytes=4096) as connection:
        server_side, ask = leave_the_end_unread(live, connection)
        ask("Connection: close")
        eventually(lambda: server_side not in live.server.server_state.connections)


def test_who_leaves_the_end_of_an_answer_unread_makes_room_for_the_next(start_collector):
    """Its socket is closed as well, so that the limit is that of the sockets."""
    live = start_collector(max_connections=2)
    with connected(live, receive_bytes=4096) as connection:
        server_side, _ = leave_the_end_unread(live, connection)
        live.pool.clear()
        with connected(live), connected(live):
            eventually(lambda: server_side not in live.server.server_state.connections)


def test_who_reads_too_slowly_is_closed(start_collector, monkeypatch):
    """A client that reads all the time, and never as fast as it has to, uses up its time."""
    monkeypatch.setattr(connections_, "LEAST_BYTES_PER_SECOND", 10**12)
    live = start_collector(write_timeout_seconds=0.2, max_config_bytes=2_000_000)
    answer = long_answer(live)
    with connected(live) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        local = connection.getsockname()
        eventually(lambda: is_held(live, local))
        connection.sendall(answer * 500)
        with contextlib.suppress(ConnectionResetError):
            # Reading the bytes that the kernel still holds after the end would take a minute.
            while is_held(live, local) and connection.recv(4096):
                pass
        eventually(lambda: not is_held(live, local))
    assert is_served(live)


def test_reading_earns_time_back():
    """Of 30 s a client waits 20 and reads 48 KiB, which earn 3 s: 13 s are left, and 13 s without reading end them."""
    reading = ReadingTime(30.0, 30.0)
    assert reading.pause(100.0, 64 * 1024) == 30.0
    reading.resume(120.0, 16 * 1024)
    assert reading.pause(125.0, 64 * 1024) == 13.0
    reading.resume(138.0, 64 * 1024)
    assert reading.left == 0.0
    reading.pause(138.0, 10 * 1024 * 1024)
    reading.resume(139.0, 0)
    assert reading.left == 30.0


def test_a_client_that_goes_away_leaves_no_error(start_collector, caplog):
    """In the middle of a body, of an answer, or of a stream."""
    live = start_collector()
    connections = live.server.config.connections
    for request in (
        ACK + b"Content-Length: 100\r\n\r\n{",
        ACK.replace(b"alerts/none/ack", b"ingest") + b"Content-Length: 9\r\n\r\n{",
        b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    ):
        with connected(live) as connection:
            connection.sendall(request)
            eventually(lambda: connections.open)
        eventually(lambda: not connections.open)
    assert is_served(live)
    # An exporter of another test may say that it ends.
    said = [record for record in caplog.records if not record.name.startswith("opentelemetry.")]
    assert [record for record in said if record.levelno >= logging.WARNING] == []


def test_descriptors_bound_the_connections(monkeypatch):
    """Of 256 descriptors half stay for the store; a setting below is kept."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    assert ConnectionLimits(connections=1000).within_descriptors() == 128
    assert ConnectionLimits(connections=50).within_descriptors() == 50


def _upload(path, size, sent):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    )
    return head.encode() + b" " * sent


def test_bodies_that_arrive_slowly_do_not_pile_up(start_collector):
    """Together they hold a bounded memory; a larger body is refused until later, a small one served."""
    live = start_collector(max_body_bytes=1_000_000, max_held_bytes=1_500_000)
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(connected(live))
        slow.sendall(_upload("/api/v1/ingest", 1_000_000, 900_000))
        bodies = live.app.state.bodies
        eventually(lambda: bodies.held_bytes > 800_000)
        refused = stack.enter_context(connected(live))
        with contextlib.suppress(OSError):
            refused.sendall(_upload("/api/v1/ingest", 1_000_000, 1_000_000))
        answer = refused.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer.lower()
        assert live.send(run="small", records=[{"step": 0, "scalars": {"a": 1.0}}])["accepted"] == 1
        assert 800_000 < bodies.held_bytes <= 1_500_000
    eventually(lambda: bodies.held_bytes == 0)
    body = b'{"schema_version": 1, "run": "large"}' + b" " * 900_000
    assert live.post(body).status == 200


def _unread_bytes(live):
    metrics = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    return float(re.search(r'^rlvitals_held_bytes\{of="answers"\} (\S+)$', metrics, re.MULTILINE)[1])


def test_answers_that_nobody_reads_do_not_pile_up(start_collector, caplog):
    """Above the allowed memory the answer that has waited longest is given up, without a traceback."""
    live = start_collector(write_timeout_seconds=3600, max_unread_bytes=1_000_000, max_config_bytes=2_000_000)
    held = live.server.config.connections
    get = long_answer(live) * 10
    with contextlib.ExitStack() as stack:
        for _ in range(12):  # the buffers of the kernel take a part of each answer
            connection = stack.enter_context(connected(live))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(get)
        eventually(lambda: held.given_up)
        eventually(lambda: sum(one.transport.get_write_buffer_size() for one in held.unread) <= 1_000_000)
        assert is_served(live)
        assert 0 < _unread_bytes(live) <= 1_000_000
    eventually(lambda: not held.unread)
    assert _unread_bytes(live) == 0
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    # The exporter of another test's collector may end now.
    assert [record for record in errors if not record.name.startswith("opentelemetry.")] == []


@pytest.mark.parametrize("noise", [b"\x16\x03\x01 noise\r\n\r\n", ACK + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"])
@pytest.mark.parametrize("whole", [1, 2])
def test_requests_are_answered_though_what_follows_is_no_http(start_collector, noise, whole):
    """The client could take a refusal for the answer to its request, whose batch is stored."""
    live = start_collector()
    with connected(live) as connection:
        connection.sendall((HEAD.replace(b"/ ", b"/healthz ") + b"\r\n") * whole + noise)
        answers = b""
        while received := connection.recv(65536):
            answers += received
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * whole


def test_what_is_no_http_is_logged_once_a_minute(start_collector, caplog):
    """A client that sends noise all day does not fill the disk with log lines."""
    live = start_collector()
    for _ in range(20):
        with connected(live) as connection:
            connection.sendall(b"\x16\x03\x01 noise\r\n\r\n")
            assert b"400" in connection.recv(65536)
    assert len([record for record in caplog.records if "Invalid HTTP request" in record.message]) == 1
