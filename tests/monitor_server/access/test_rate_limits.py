"""Each key may send so many requests and bytes; more is refused before a body is read."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.access.rate_limits import BURST_SECONDS, AddressLimits, RateLimits
from monitor_server.errors import TooManyRequests
from monitor_server.http_server.read_limits import MAX_READS_OF_ONE, MAX_REPORTS_OF_ONE
from tests.databases import sqlite_only
from tests.monitor_server.access.conftest import Guarded


@given(pauses=st.lists(st.floats(0.0, 3.0), max_size=60), rate=st.integers(1, 5))
def test_no_key_sends_more_than_its_rate(pauses, rate):
    """At most ten seconds' worth is accepted at once, and the rate after that; a refusal has a time to retry."""
    now, passed = [0.0], 0
    limits = RateLimits(requests=rate, bytes_=0, time=lambda: now[0])
    for pause in pauses:
        now[0] += pause
        try:
            limits.count_request("k")
            passed += 1
        except TooManyRequests as error:
            now[0] += int(error.headers["Retry-After"])
            limits.count_request("k")
            passed += 1
    assert passed <= rate * (BURST_SECONDS + now[0]) + 1e-6


def test_bytes_are_counted_as_they_arrive():
    """A body may exceed what is left; the next request waits until the debt is paid."""
    now = [0.0]
    limits = RateLimits(requests=0, bytes_=10_000_000, time=lambda: now[0])
    limits.count_request("k")
    limits.count_bytes("k", 150_000_000)
    stated = "a key may send 10,000,000 bytes a second (RLVITALS_KEY_BYTES_PER_SECOND)"  # the limit that was exceeded
    with pytest.raises(TooManyRequests, match=re.escape(stated)) as refused:
        limits.count_request("k")
    assert refused.value.headers["Retry-After"] == "5"
    limits.count_request("another")
    now[0] += 5.0
    limits.count_request("k")


def test_requests_without_a_key_are_counted_by_address_and_altogether():
    """An IPv6 client has many addresses of one network, and counts as one."""
    limits = AddressLimits("visits", per_address=1.0, altogether=2.0, time=lambda: 0.0)
    for number in range(10):
        limits.count(f"2001:db8::{number}")
    with pytest.raises(TooManyRequests, match="too many visits; try again in 1 s"):
        limits.count("2001:db8::ffff")
    for _ in range(10):
        limits.count("::ffff:10.0.0.1")
    with pytest.raises(TooManyRequests):
        limits.count("2001:db8:0:1::1")


@sqlite_only
def test_a_key_that_sends_too_much_keeps_nobody_else_out(start_collector):
    """429 with Retry-After, which the SDK obeys; the body is not read, and other keys are served."""
    guarded = Guarded(start_collector(key_bytes_per_second=1))
    greedy, modest = guarded.key("ingest"), guarded.key("ingest")
    guarded.send(greedy)
    answer = guarded.live.pool.request(
        "POST",
        f"{guarded.live.url}/api/v1/ingest",
        body=b"\0" * 1_000_000,
        headers={"Authorization": f"Bearer {greedy}", "Content-Type": "application/json"},
    )
    assert (answer.status, answer.json()["error"]) == (429, "TooManyRequests")
    assert int(answer.headers["Retry-After"]) > 0
    guarded.send(modest)


@sqlite_only
@pytest.mark.usefixtures("still_limits")
def test_requests_that_are_refused_are_counted(start_collector):
    """The project of a run is read from the database for a request about it, also where the answer is a refusal."""
    guarded = Guarded(start_collector(key_requests_per_second=1))
    key = guarded.key("read", project="ours")
    statuses = {guarded.ask("GET", "/api/v1/runs/another", key).status for _ in range(11)}
    assert statuses == {404, 429}


@sqlite_only
def test_one_key_leaves_reads_and_reports_to_the_others(guarded):
    """A script that asks on many connections keeps nobody from the list of alerts."""
    admin, greedy, other = guarded.key("admin"), guarded.key("read", name="greedy"), guarded.key("read")
    guarded.send(admin, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", other).json()["items"]
    keys = guarded.ask("GET", "/api/v1/keys", admin).json()["items"]
    (held_by,) = (key["id"] for key in keys if key["name"] == "greedy")
    collector = guarded.live.app.state.collector
    for path, admission, most in [
        ("/api/v1/alerts", collector.waiting_reads, MAX_READS_OF_ONE),
        (f"/api/v1/alerts/{alert['id']}/incident", collector.incident_reports, MAX_REPORTS_OF_ONE),
    ]:
        with contextlib.ExitStack() as under_way:
            for _ in range(most):
                under_way.enter_context(admission.admit(held_by))
            refused = guarded.ask("GET", path, greedy)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert refused.json()["detail"].startswith(f"{most} requests of this kind are under way with this key")
            assert guarded.ask("GET", path, other).status == 200
        assert guarded.ask("GET", path, greedy).status == 200
