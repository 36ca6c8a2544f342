import contextlib
import gc
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import trainer_hooks
from tests.bad_collectors import dripping
from tests.live import PATIENCE_SECONDS
from tests.patience import eventually
from trainer_hooks.delivery import BackoffTransport
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.errors import ConfigurationError, RefusedError, UnavailableError
from trainer_hooks.wire import Batch, Receipt, encode


class StepClock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


class ScriptedTransport:
    """A transport that raises the given errors, then delivers, and counts the attempts."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.tries = 0

    def send(self, _body):
        """Raise the next error, or deliver if none is left."""
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return Receipt(run_id="r", accepted=1)


def tried(transport, clock, seconds):
    """Move the clock and return whether sending reached the transport."""
    clock.now += seconds
    before = transport.inner.tries
    with contextlib.suppress(UnavailableError):
        transport.send(b"")
    return transport.inner.tries > before


def backing_off(*errors):
    """Wrap a scripted transport, with a jitter of 1."""
    clock = StepClock()
    inner = ScriptedTransport(*errors)
    transport = BackoffTransport(inner, clock=clock, uniform=lambda *_: 1.0)
    transport.inner = inner
    return transport, clock


def test_delays_double_after_each_failure():
    """The delays are 0.5 s, 1 s and 2 s, and the transport is not used before they end."""
    transport, clock = backing_off(*[UnavailableError("down")] * 3)
    assert tried(transport, clock, 0)
    for delay in (0.5, 1.0, 2.0):
        assert not tried(transport, clock, delay * 0.9)
        assert tried(transport, clock, delay * 0.1)
    assert transport.inner.tries == 4


def test_the_longest_delay_is_a_minute():
    """The delay does not grow beyond a minute, however long the outage is."""
    transport, clock = backing_off(*[UnavailableError("down")] * 30)
    for _ in range(20):
        tried(transport, clock, 60)
    assert transport.inner.tries == 20
    assert not tried(transport, clock, 59)
    assert tried(transport, clock, 1)


def test_the_collector_can_ask_for_longer():
    """Retry-After takes precedence over a shorter delay."""
    transport, clock = backing_off(UnavailableError("busy", retry_after_seconds=7))
    tried(transport, clock, 0)
    assert not tried(transport, clock, 6.9)
    assert tried(transport, clock, 0.1)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), (None, 0.0), ("soon", 0.0)])
def test_retry_after_is_read_from_the_answer(collector, header, seconds):
    """503 with Retry-After over real HTTP; a value that is not a number of seconds is ignored."""
    collector.answers = [(503, b"", {"Retry-After": header} if header else {})]
    with pytest.raises(UnavailableError) as raised:
        HttpTransport(collector.url).send(b"")
    assert raised.value.retry_after_seconds == seconds


def test_a_redirect_names_its_target(collector):
    """A balancer answers http with a redirect to https and no body; the key must not be sent to any such address."""
    collector.answers = [(308, b"", {"Location": "https://collector.example/api/v1/ingest"})]
    with pytest.raises(UnavailableError, match=r"308: redirected to https://collector\.example/.* set RLVITALS_URL"):
        HttpTransport(collector.url).send(b"")


@pytest.mark.parametrize("page", ["/login", "https://sign-in.example/authorize"])
def test_a_redirect_to_a_sign_in_page_gives_no_address_of_a_collector(collector, page):
    """The query has the secrets of the sign-in, and stays out of the log."""
    collector.answers = [(302, b"", {"Location": f"{page}?next=/api/v1/ingest"})]
    with pytest.raises(UnavailableError, match=f"302: redirected to {page}; .* without a sign-in$"):
        HttpTransport(collector.url).send(b"")


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n"),
    ],
    ids=["a byte at a time", "continue", "headers"],
)
def test_an_answer_without_an_end_is_given_up(beginning, drop):
    """Each part comes in time, but the end never does; the next batch has its own connection.

    So is one whose time is over before there is a connection.
    """
    with dripping(beginning, drop) as url:
        for seconds in (0.0, 0.5):
            transport = HttpTransport(url, read_timeout_seconds=PATIENCE_SECONDS, exchange_seconds=seconds)
            for _ in range(2):
                with pytest.raises(UnavailableError, match="batch and answer took longer"):
                    transport.send(b"body")


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000), (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n")],
    ids=["continue", "headers"],
)
def test_an_answer_that_never_ends_and_never_pauses_is_given_up(beginning, drop):
    """The thread that reads it is busy all the time, and is stopped all the same."""
    with dripping(beginning, drop, every_seconds=0.0) as url:
        transport = HttpTransport(url, read_timeout_seconds=PATIENCE_SECONDS, exchange_seconds=0.5)
        for _ in range(2):
            with pytest.raises(UnavailableError):
                transport.send(b"body")


def test_after_an_error_of_the_server_the_next_batch_takes_a_new_connection(collector):
    """A balancer of connections may lead it to another collector; after a receipt the connection is used again."""
    transport, body = HttpTransport(collector.url), encode(Batch(schema_version=1, run="r"))
    transport.send(body)
    collector.answers = [(503, b"{}", {})]
    with pytest.raises(UnavailableError):
        transport.send(body)
    for _ in range(2):
        transport.send(body)
    first, refused, anew, again = collector.ports
    assert first == refused != anew == again


def test_after_an_interim_answer_no_batch_has_the_answer_of_an_earlier_one():
    """A proxy sends 103 first, and the receipt comes after the trainer has stopped waiting for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}")
        with ThreadPoolExecutor(1) as trainer:
            sending = trainer.submit(transport.send, b"first")
            first, _ = server.accept()
            first.recv(4096)
            first.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            with pytest.raises(UnavailableError, match="answered 103"):
                sending.result(PATIENCE_SECONDS)
            sending = trainer.submit(transport.send, b"second")
            server.settimeout(PATIENCE_SECONDS)
            second, _ = server.accept()  # not on the first connection, where an answer is still due
            second.close()
            with pytest.raises(UnavailableError):
                sending.result(PATIENCE_SECONDS)
            first.close()


def test_closed_monitors_leave_no_descriptor(collector, monkeypatch, tmp_path):
    """A sweep in one process would come to the limit of open files, and its trainings could open none."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))

    def count_descriptors():
        gc.collect()
        return len(list(Path("/dev/fd").iterdir()))

    def train():
        monitor = trainer_hooks.connect(collector.url, run="r")
        monitor.log_step(0, {"a": 1.0})
        monitor.close()
        assert collector.batches

    train()
    before = count_descriptors()
    for _ in range(4):
        train()
    # The collector is in this process, and closes its side later.
    assert eventually(lambda: count_descriptors() <= before)


def test_what_is_quick_enough_is_not_cut(collector):
    """The timer of one batch has ended before the next one, which uses the same connection."""
    transport, others = HttpTransport(collector.url), set(threading.enumerate())
    for _ in range(3):
        transport.send(encode(Batch(schema_version=1, run="r", records=[])))
    timers = [
        thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread not in others
    ]
    assert all(timer.finished.is_set() for timer in timers)
    assert len(set(collector.ports)) == 1


def test_a_batch_may_take_longer_than_a_connection():
    """A collector that reads late, or a slow network, gets the batch on the first connection; else it never would."""
    body, receipt = bytes(16 << 20), encode(Receipt(run_id="r", accepted=1))
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as trainer:
        transport = HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}", connect_timeout_seconds=0.05)
        server.settimeout(PATIENCE_SECONDS)
        sending = trainer.submit(transport.send, body)
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            for batch in (sending, None):
                sending = batch or trainer.submit(transport.send, body)
                with pytest.raises(TimeoutError):
                    sending.result(0.2)
                while stream.readline() != b"\r\n":
                    pass
                stream.read(len(body))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(receipt), receipt))
                assert sending.result(PATIENCE_SECONDS).accepted == 1


def test_success_resets_the_backoff():
    """After a delivery, the next failure starts again with the first delay."""
    transport, clock = backing_off(*[UnavailableError("down")] * 3)
    for delay in (0, 0.5, 1.0, 2.0):
        assert tried(transport, clock, delay)
    transport.inner.errors = [UnavailableError("down")]
    assert tried(transport, clock, 0)
    assert tried(transport, clock, 0.5)


def test_the_delay_can_be_ended():
    """After end_delay the next batch is sent at once."""
    transport, clock = backing_off(UnavailableError("down"))
    tried(transport, clock, 0)
    transport.end_delay()
    assert tried(transport, clock, 0)


def test_a_refusal_causes_no_delay():
    """A refusal starts no delay, because the next batch may be accepted."""
    transport, clock = backing_off(RefusedError("no"))
    with pytest.raises(RefusedError):
        transport.send(b"")
    assert tried(transport, clock, 0)


def chosen_delays(failures, *, retry_after_seconds=0.0):
    """Fail repeatedly, each time as soon as the delay allows; return the delays in seconds."""
    clock = StepClock()
    error = UnavailableError("down", retry_after_seconds=retry_after_seconds)
    inner = ScriptedTransport(*[error] * failures)
    transport = BackoffTransport(inner, clock=clock)
    transport.inner = inner
    delays = []
    for _ in range(failures):
        assert tried(transport, clock, 0)
        delays.append(transport.not_before - clock.now)
        assert not tried(transport, clock, delays[-1] * 0.999)
        clock.now = transport.not_before
    return delays


@settings(max_examples=40, deadline=None)
@given(failures=st.integers(1, 40), asked=st.floats(0, 1e9, allow_subnormal=False))
def test_every_delay_is_bounded_below_and_above(failures, asked):
    """A delay is 0.5 to 1.5 times the doubled one and at least the requested one, which counts up to five minutes."""
    for index, delay in enumerate(chosen_delays(failures, retry_after_seconds=asked)):
        own, theirs = min(60, 0.5 * 2**index), min(asked, 300)
        slack = 1e-6 * (1 + theirs)  # the clock has gone on, and its numbers are coarser
        assert max(0.5 * own, theirs) - slack <= delay <= max(1.5 * own, 1.25 * theirs) + slack


@pytest.mark.parametrize(("failures", "low", "high"), [(1, 0.25, 0.75), (4, 2, 6), (12, 30, 90)])
def test_the_delays_of_trainers_with_the_same_seed_are_spread_evenly(failures, low, high):
    """Three hundred trainers that lose their collector at once do not return at once, because each draws privately."""
    last = []
    for _ in range(300):
        random.seed(0)
        state = random.getstate()
        last.append(chosen_delays(failures)[-1])
        assert random.getstate() == state
    # A chance of one in a million of failing where the spread is even.
    assert stats.kstest(last, stats.uniform(low, high - low).cdf).pvalue > 1e-6


def test_the_delays_of_trainers_with_the_same_retry_after_are_spread():
    """Trainers that are all asked for the same delay do not return at the same moment."""
    last = [chosen_delays(1, retry_after_seconds=100)[0] for _ in range(300)]
    assert stats.kstest(last, stats.uniform(100, 25).cdf).pvalue > 1e-6


@pytest.mark.parametrize("host", ["h\x00", "ü" * 80 + ".example"])
def test_a_host_that_no_request_can_name_is_refused_by_connect(host):
    """The error is that of a setting that cannot work, and not one of urllib3's."""
    with pytest.raises(ConfigurationError, match="url must look like"):
        trainer_hooks.connect(f"http://{host}", run="r")
