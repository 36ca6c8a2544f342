"""Requests that read wait for each other, and only a limited number of them may wait."""

import contextlib
import json
import selectors
import socket
from urllib.parse import urlsplit

import pytest

from monitor_server.errors import Unavailable
from monitor_server.http_server.read_limits import MAX_EXPORTS_OF_ONE, MAX_READS, exports
from tests.databases import sqlite_only
from tests.live import PATIENCE_SECONDS

CONNECTIONS_OF_THE_STORE = 50
REQUEST = b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def _read_all(connection):
    connection.settimeout(PATIENCE_SECONDS)
    with connection.makefile("rb") as stream:
        head, body = stream.read().split(b"\r\n\r\n", 1)
    return head.decode().lower().split("\r\n"), json.loads(body)


@sqlite_only
def test_a_read_beyond_those_that_may_wait_is_refused_at_once(start_collector):
    """While no read ends, the one above the limit is answered with 503; later all the others have their answers."""
    live = start_collector()
    url = urlsplit(live.url)
    store = live.app.state.collector.store
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as holding:
            for _ in range(CONNECTIONS_OF_THE_STORE):
                holding.enter_context(store.read())
            selector = stack.enter_context(selectors.DefaultSelector())
            waiting = set()
            for _ in range(MAX_READS + 1):
                connection = stack.enter_context(socket.create_connection((url.hostname, url.port)))
                connection.sendall(REQUEST)
                selector.register(connection, selectors.EVENT_READ)
                waiting.add(connection)
            ((key, _), *_) = selector.select(PATIENCE_SECONDS)
            head, body = _read_all(key.fileobj)
            assert " 503 " in head[0]
            assert "retry-after: 1" in head
            assert (body["error"], f"{MAX_READS} requests" in body["detail"]) == ("Unavailable", True)
            waiting.remove(key.fileobj)
        answers = [_read_all(connection) for connection in waiting]
    assert {head[0].split()[1] for head, _ in answers} == {"200"}
    assert live.get("/runs")["items"] == []


def test_one_key_leaves_exports_to_the_others():
    """A reader that takes nothing holds its turn; it may be one of a project, and would stop those of all projects."""
    limit = exports()
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_EXPORTS_OF_ONE):
            stack.enter_context(limit.admit("slow"))
        with pytest.raises(Unavailable, match="3 requests of this kind"), limit.admit("slow"):
            pass
        stack.enter_context(limit.admit("another"))
        stack.enter_context(limit.admit(None))
    with limit.admit("slow"):
        assert limit.count == 1
