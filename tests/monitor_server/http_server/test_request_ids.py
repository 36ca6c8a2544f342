"""The id of a request is the same in its answer, in the collector's log and in the error that the SDK raises."""

import logging
import re

import pytest

from monitor_server.instrumentation.collector_log import line_handler
from tests.live import eventually
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.errors import RefusedError


@pytest.fixture
def lines():
    """The log lines of the collector, as its server would write them."""
    written, handler = [], line_handler()
    handler.emit = lambda record: written.append(handler.format(record))
    log = logging.getLogger("monitor_server")
    log.addHandler(handler)
    yield written
    log.removeHandler(handler)


def test_an_error_of_the_sdk_names_the_request(collector):
    """A batch that the collector cannot read is refused with the id."""
    with pytest.raises(RefusedError, match=r"answered 400: .* \(request [0-9a-f]{16}\)"):
        HttpTransport(collector.url).send(b"\xc1")


@pytest.mark.parametrize(
    ("sent", "is_kept"), [("trace-1.a_b", True), ("a" * 65, False), ("a b", False), ("a\tb", False), ("", False)]
)
def test_a_client_may_name_its_request_by_a_short_and_harmless_id(collector, sent, is_kept):
    """Another one gets an id of the collector."""
    answer = collector.pool.request("GET", f"{collector.url}/healthz", headers={"X-Request-Id": sent})
    given = answer.headers["X-Request-Id"]
    assert given == sent if is_kept else re.fullmatch("[0-9a-f]{16}", given)


def test_two_requests_have_two_ids_also_where_they_are_refused(collector):
    """Before a route is found as well."""
    paths = ["/healthz", "/api/v1/runs", "/api/v1/nothing", "/nothing"]
    answers = [collector.pool.request("GET", collector.url + path) for path in paths]
    refused = collector.pool.request("GET", f"{collector.url}/healthz", headers={"Host": "evil.example"})
    assert refused.status == 421
    assert len({answer.headers["X-Request-Id"] for answer in [*answers, refused]}) == 5


def test_a_line_of_the_log_names_the_request_that_caused_it(start_collector, scripted, lines, monkeypatch):
    """The line has the id also where a thread has answered the request."""
    live = start_collector(engine=scripted)

    def fail(*_arguments, **_options):
        raise RuntimeError("a fault of the test")

    monkeypatch.setattr("monitor_server.store.repositories.run_views.RunViews.page", fail)
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs")
    assert answer.status == 500
    request = answer.headers["X-Request-Id"]
    eventually(lambda: any(line.startswith("ERROR") and f"(request {request})" in line for line in lines))
