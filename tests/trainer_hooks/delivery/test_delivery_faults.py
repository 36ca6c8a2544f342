"""Training continues through every fault of the collector, and records arrive in order."""

import asyncio
import gzip
import logging
import math
import os
import queue
import resource
import signal
import subprocess
import sys
import textwrap
import threading

import msgspec
import numpy as np
import pytest
import torch

import trainer_hooks
import trainer_hooks.recording.records as records_module
from tests.bad_collectors import connect_impatiently, nobody_answers, nobody_listens
from tests.live import PATIENCE_SECONDS, eventually
from trainer_hooks.arrays.torch_backend import DeviceArrays
from trainer_hooks.delivery import BatchProcessor, RecordQueue, SendingQueue
from trainer_hooks.delivery import exporter as exporter_module
from trainer_hooks.wire import Batch, Receipt, Record, Rejection, encode, run_id


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    """Remove the delays of the backoff; they are tested with a clock of their own."""
    monkeypatch.setattr("trainer_hooks.delivery.transport.FIRST_DELAY_SECONDS", 0.0)


def losses(monitor):
    """Return the records that will never arrive."""
    return monitor.drops.dropped_records


@pytest.fixture
def no_spool(monkeypatch):
    """Keep everything in memory."""
    monkeypatch.setenv("RLVITALS_SPOOL_BYTES", "0")


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"oops", {}),
        (503, b"", {"Retry-After": "0"}),
        (429, b"", {"Retry-After": "nonsense"}),
        (408, b"", {}),
        (401, b'{"error": "NotAllowed"}', {}),
        (404, b"not here", {}),
        (400, b"Invalid HTTP request received.", {"Content-Type": "text/plain"}),
        (302, b"", {"Location": "/elsewhere"}),
        (200, b"<html>please log in</html>", {"Content-Type": "text/html"}),
        (200, b"", {}),
        (200, encode(Receipt(run_id="r", accepted=1))[:-3], {}),
        (200, b"\x00" * (3 << 20), {}),
        (200, b"\x81\xa2\xff\xfe\x01", {}),
        (200, gzip.compress(encode(Receipt(run_id="r", accepted=1))), {"Content-Encoding": "gzip"}),
        (422, b'{"error": "\xff\xfe", "detail": "d"}', {}),
        (422, b'{"a": ' + b"[" * 500_000, {}),
        (422, b'{"error": "SchemaVersionMismatch", "detail": "upgrade the collector"}', {}),
        (503, b"", {"Retry-After": "9" * 5000}),
        (503, b"", {"Retry-After": "Fri, 31 Dec 99999 23:59:59 GMT"}),
    ],
    ids=[
        *("500", "503", "429", "408", "key", "address", "damaged", "redirect", "html", "empty", "truncated", "huge"),
        *("name no UTF-8", "compressed", "no UTF-8", "deep", "schema", "waits for long", "waits for a far date"),
    ],
)
def test_a_batch_without_a_receipt_is_sent_again(collector, connect, answer):
    """The records stay until there is a receipt for them, and each is stored once."""
    collector.answers = [answer] * 3
    monitor = connect()
    for step in range(5):
        monitor.log_step(step, {"x": float(step)})
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [0, 1, 2, 3, 4]
    assert losses(monitor) == 0


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error": "MalformedBody", "detail": "d"}'),
        (413, b"<html>too large</html>"),
        (422, b'{"error": "InvalidField", "detail": "d"}'),
    ],
    ids=["malformed", "a proxy's limit", "invalid"],
)
def test_a_refused_batch_is_dropped_and_counted(collector, connect, caplog, status, body):
    """A refused batch is not sent again, and the loss is in the log and in the next record."""
    monitor = connect()
    collector.wait_for(lambda seen: bool(seen.batches))
    collector.answers = [(status, body, {})]
    with caplog.at_level(logging.WARNING, "trainer_hooks"):
        monitor.log_step(1, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert f"answered {status}: {body.decode()}" in caplog.text
    monitor.log_step(2, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert record.step == 2
    assert record.summaries["hooks/dropped_records"].value() == 1


def test_a_refused_heartbeat_does_not_hide_a_refused_batch(collector, connect, caplog):
    """Both refusals are logged, that of the batch with the number of its records."""
    collector.answers = [(422, b'{"error": "InvalidField", "detail": "d"}', {})] * 2
    with caplog.at_level(logging.WARNING, "trainer_hooks"):
        monitor = connect()
        collector.wait_for(lambda seen: len(seen.answers) == 1)
        monitor.log_step(1, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert "the collector refused a heartbeat" in caplog.text
    assert "(refused: 1 so far)" in caplog.text


def test_a_configuration_that_is_refused_costs_itself_alone(collector, connect):
    """The introduction and the first batch on disk have the configuration, and both are sent again without it."""
    refusal = (422, b'{"error": "InvalidField", "detail": "config must have at most 131072 bytes"}', {})
    taken = collector.receipt

    def refuse_next_batch(batch):
        collector.answers.append(refusal)
        collector.receipt = taken
        return taken(batch)

    collector.answers = [refusal]
    collector.receipt = refuse_next_batch
    monitor = connect(config={"seed": 3})
    collector.wait_for(lambda seen: len(seen.batches) == 1)
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert [(batch.config, len(batch.records)) for batch in collector.batches] == [({}, 0), ({}, 1)]
    assert losses(monitor) == 0


def test_a_step_that_cannot_be_encoded_is_counted_as_dropped(collector, connect, swallowed):
    """A step that is not a number, and one too large for the wire, are counted in the next record."""
    monitor = connect()
    monitor.log_step(None, {"x": 1.0})
    monitor.log_step(2**70, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert [type(error) for error in swallowed] == [ValueError, ValueError]
    swallowed.clear()
    monitor.log_step(3, {"x": 1.0}, policy_version=np.int64(2), data_version=7)
    assert monitor.flush(PATIENCE_SECONDS)
    (record,) = collector.records
    assert (record.policy_version, record.data_version) == (2, "7")
    assert record.summaries["hooks/dropped_records"].value() == 2
    assert record.summaries["hooks/dropped/unpacked"].value() == 2
    assert "hooks/dropped/refused" not in record.summaries


def test_a_logging_filter_that_raises_reaches_neither_training_nor_delivery(collector, connect):
    """Steps return and all records arrive although the user's log filter raises an error."""

    class Picky(logging.Filter):
        def filter(self, record):
            return bool(record.user_id)

    picky = Picky()
    logging.getLogger("trainer_hooks").addFilter(picky)
    try:
        collector.answers = [(500, b"oops", {})]
        monitor = connect()
        monitor.log_step(1, {"x": 1.0, "no number": None})
        assert monitor.flush(PATIENCE_SECONDS)
    finally:
        logging.getLogger("trainer_hooks").removeFilter(picky)
    assert [record.scalars for record in collector.records] == [{"x": 1.0}]


def test_a_step_that_is_being_encoded_at_the_deadline_is_counted_as_lost(collector, monkeypatch):
    """At the deadline one of four steps is being encoded and three wait: four are lost."""
    may_go_on = threading.Event()
    reduce = records_module.reduce

    def wait_and_reduce(*given, **named):
        may_go_on.wait(60)
        return reduce(*given, **named)

    monkeypatch.setattr(records_module, "reduce", wait_and_reduce)
    monitor = connect_impatiently(collector.url, close_timeout_seconds=0.3)
    for step in range(4):
        monitor.log_step(step, rollouts={"logprobs": [[-1.0]], "mask": [[1]], "rewards": [1.0]})
    monitor.close()
    lost = losses(monitor)
    may_go_on.set()
    assert lost == 4


def test_a_process_without_free_descriptors_keeps_what_waits_on_disk(collector, connect, monkeypatch, caplog):
    """A batch that cannot be opened for the moment is sent when it can."""
    monitor = connect()
    collector.wait_for(lambda seen: len(seen.batches) == 1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def take_all_descriptors(*_):
        next_free = os.dup(0)
        os.close(next_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_free, limits[1]))
        return 429, b"", {}  # the connection is kept, and its descriptor with it

    with monkeypatch.context() as during:
        during.setattr(collector, "answer", take_all_descriptors)
        try:
            monitor.log_step(1, {"x": 1.0})
            eventually(lambda: "Too many open files" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [1]
    assert losses(monitor) == 0


def test_a_user_without_a_home_is_told_that_records_are_only_in_memory(collector, connect, monkeypatch, caplog):
    """An id without a name, in a container; records that are not sent would be lost without a word."""
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "~")  # no directory is found for it
    connect().log_step(1, {"x": 1.0})
    assert caplog.text.count("only in memory, because the user has no home directory; set RLVITALS_SPOOL_DIR") == 1
    collector.wait_for(lambda seen: seen.records)


@pytest.fixture
def more_stack():
    """Return a function that makes every new thread need more memory than there is; the test ends that."""
    yield lambda: threading.stack_size(1 << 47)
    threading.stack_size(0)


def test_a_process_that_may_have_no_more_threads_trains_without_a_record(collector, connect, more_stack, caplog):
    """The container limits them, say; `connect` returns, and the log says it once."""
    more_stack()
    monitor = connect()
    threading.stack_size(0)
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(0.0)
    assert [record.message.count("NOTHING IS RECORDED") for record in caplog.records] == [1]
    assert collector.batches == []


def test_an_exporter_that_cannot_be_started_is_started_later(collector, connect, more_stack, monkeypatch, caplog):
    """The last free thread was the batch processor's; records of that time arrive."""
    opened = SendingQueue.open

    def take_all_threads(queue):
        opened(queue)
        more_stack()

    monkeypatch.setattr(SendingQueue, "open", take_all_threads)
    monitor = connect()
    monitor.log_step(1, {"x": 1.0})
    eventually(lambda: "nothing is sent yet" in caplog.text)
    threading.stack_size(0)
    assert monitor.flush(PATIENCE_SECONDS)
    assert [record.step for record in collector.records] == [1]


def test_a_batch_that_cannot_be_read_stays_on_disk_and_does_not_block_the_next(collector, connect, tmp_path, caplog):
    """The disk fails at one batch of a dead process, here because it is a folder; a later start tries it again."""
    folder = tmp_path / run_id("default", "r1") / "000000000000001-00000-1-00000000"
    bad = folder / "0000000000-1.msgpack"
    bad.mkdir(parents=True)
    body = encode(Batch(schema_version=1, run="r1", attempt=1, records=[msgspec.Raw(encode(Record(step=7)))]))
    (folder / "0000000001-1.msgpack").write_bytes(body)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
        monitor = connect()
    collector.wait_for(lambda seen: len(seen.records) == 1)
    assert monitor.flush(PATIENCE_SECONDS)
    assert "cannot be read and stays on disk" in caplog.text
    assert bad.is_dir()
    assert losses(monitor) == 0


def test_a_rejected_record_is_counted(collector, connect):
    """A record that the collector rejects is dropped and not sent again."""
    collector.receipt = lambda batch: Receipt(
        run_id="r", accepted=0, rejected=[Rejection(index=0, error="E", detail="d")] if batch.records else []
    )
    monitor = connect()
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert len(collector.records) == 1
    assert losses(monitor) == 1


@pytest.mark.usefixtures("no_spool")
def test_a_dead_collector_costs_training_nothing_but_the_wait_at_the_end():
    """Without a collector every step returns, close returns, and the loss is counted."""
    with nobody_listens() as url:
        monitor = connect_impatiently(url, close_timeout_seconds=0.3)
        for step in range(100):
            monitor.log_step(step, {"x": 1.0})
        monitor.close()
    assert losses(monitor) == 100
    monitor.log_step(101, {"x": 1.0})
    assert losses(monitor) == 101


@pytest.mark.usefixtures("no_spool")
def test_closing_ends_the_wait_of_a_flush_in_another_thread(monkeypatch):
    """The collector is away, and the flush would wait without an end; it reports that nothing was delivered."""
    begun = threading.Event()
    with nobody_listens() as url:
        monitor = connect_impatiently(url, close_timeout_seconds=0.1)
        flush = BatchProcessor.flush
        monkeypatch.setattr(BatchProcessor, "flush", lambda *given: begun.set() or flush(*given))
        monitor.log_step(1, {"x": 1.0})
        found = queue.SimpleQueue()
        threading.Thread(target=lambda: found.put(monitor.flush(math.inf)), daemon=True).start()
        assert begun.wait(PATIENCE_SECONDS)
        monitor.close()
        assert found.get(timeout=PATIENCE_SECONDS) is False


@pytest.mark.usefixtures("no_spool")
def test_a_collector_that_never_answers_delays_no_step():
    """The collector accepts connections; steps return meanwhile, and close ends its wait in time."""
    with nobody_answers() as url:
        monitor = connect_impatiently(url, close_timeout_seconds=0.3)
        for step in range(100):
            monitor.log_step(step, {"x": 1.0})
        monitor.close()
    assert losses(monitor) == 100


def test_a_connection_cut_in_the_middle_is_tried_again(collector, connect, monkeypatch):
    """The collector dies between reading a batch and answering; the same batch is sent again."""
    answer = collector.answer
    cut = threading.Event()

    def die_once(path, body, headers):
        status, receipt, fields = answer(path, body, headers)
        if not cut.is_set() and collector.records:
            cut.set()
            return status, receipt[:2], fields | {"Content-Length": str(len(receipt)), "Connection": "close"}
        return status, receipt, fields

    monkeypatch.setattr(collector, "answer", die_once)
    monitor = connect()
    monitor.log_step(1, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert cut.is_set()
    first, second = collector.records
    assert (first.step, first.seq) == (second.step, second.seq)


def test_a_full_record_queue_drops_the_newest_step_and_counts_it(collector, connect, monkeypatch):
    """Where more steps are logged between two rounds than the queue holds, the rest is dropped and counted."""
    monkeypatch.setitem(RecordQueue.__init__.__kwdefaults__, "max_records", 10)
    monitor = connect()
    collector.wait_for(lambda seen: bool(seen.batches))
    with collector.arrived:  # the collector waits, and so does the exporter
        collector.answers = []
        for step in range(5000):
            monitor.log_step(step, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert losses(monitor) > 0
    assert len(collector.records) + losses(monitor) == 5000


def test_token_arrays_fill_the_record_queue_by_their_size(collector, connect, monkeypatch):
    """The queue is bounded in bytes too, but a single step of any size is accepted."""
    monkeypatch.setitem(RecordQueue.__init__.__kwdefaults__, "max_bytes", 1000)
    monitor = connect()
    rollouts = {"logprobs": -np.ones((8, 64)), "mask": np.ones((8, 64)), "rewards": np.ones(8)}
    monitor.log_step(0, rollouts=rollouts)
    assert monitor.flush(PATIENCE_SECONDS)
    assert losses(monitor) == 0
    for step in range(1, 50):
        monitor.log_step(step, rollouts=rollouts)
    assert monitor.flush(PATIENCE_SECONDS)
    assert losses(monitor) > 0
    assert len(collector.records) + losses(monitor) == 50


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("names", {}),
        ("data version", {}),
        ("texts", {}),
        ("texts", {"copy": False}),
        ("texts", {"library": DeviceArrays(torch.device("cpu"))}),
    ],
    ids=["names", "data version", "texts", "texts in place", "texts beside a device"],
)
def test_names_and_texts_fill_the_record_queue_by_their_size(collector, connect, monkeypatch, what, options):
    """A trainer that makes long ones anew at every step must not fill the memory while the collector is away."""
    monkeypatch.setenv("RLVITALS_RESPONSE_SECONDS", "0")
    monkeypatch.setitem(RecordQueue.__init__.__kwdefaults__, "max_bytes", 1_500_000)
    is_logged, reduce = threading.Event(), records_module.reduce
    monkeypatch.setattr(
        records_module, "reduce", lambda *given, **named: is_logged.wait(60) and reduce(*given, **named)
    )
    monitor = connect()
    arrays = {"logprobs": [[-1.0]], "mask": [[1]], "rewards": [1.0]}
    monitor.log_step(0, rollouts=arrays)  # the queue is not emptied while this step is being encoded
    for step in range(1, 50):
        text = f"{step:02}" * 80_000
        if what == "texts":
            monitor.log_step(step, rollouts=arrays | options | {"texts": [text]})
        else:
            monitor.log_step(step, {text if what == "names" else "x": 1.0}, data_version=text)
    is_logged.set()
    assert monitor.flush(PATIENCE_SECONDS)
    assert losses(monitor) > 0
    assert len(collector.records) + losses(monitor) == 50


def test_threads_and_signal_handlers_may_log_at_once(collector, connect, monkeypatch):
    """Every step of four threads, and of a signal handler that interrupts one of them, arrives."""
    queues = set()
    forget = RecordQueue.forget_size
    monkeypatch.setattr(RecordQueue, "forget_size", lambda queue: (queues.add(queue), forget(queue)))
    monitor = connect()
    interruptions = []

    def interrupt(*_):
        interruptions.append(len(interruptions))
        monitor.log_step(10_000 + len(interruptions), {"x": 2.0})

    def log():
        for step in range(500):
            monitor.log_step(step, {"x": 1.0})

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    threads = [threading.Thread(target=log) for _ in range(3)]
    try:
        for thread in threads:
            thread.start()
        log()
        for thread in threads:
            thread.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert monitor.flush(60.0)
    assert interruptions
    assert losses(monitor) == 0
    assert len(collector.records) == 4 * 500 + len(interruptions)
    assert [queue.nbytes for queue in queues] == [0]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, asyncio.CancelledError])
def test_an_error_in_on_alert_ends_nothing(collector, connect, kind):
    """An error in the user's callback, or its `sys.exit()`, is counted, and the next steps are sent."""

    def explode(alert):
        raise kind(alert.id)

    alert = trainer_hooks.AlertNotice(id="a", kind="k", severity="info", opened_step=1, summary="s")
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), alerts=[alert])
    monitor = connect(on_alert=explode)
    for step in (1, 2):
        monitor.log_step(step, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
    assert len(collector.records) == 2
    assert monitor.drops["internal_errors"] == 1


def test_on_alert_may_close_the_monitor(collector, connect):
    """A callback that ends the run from the background thread does not wait for itself."""
    alert = trainer_hooks.AlertNotice(id="a", kind="k", severity="critical", opened_step=1, summary="s")
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), alerts=[alert])
    monitors = queue.SimpleQueue()  # the first answer may come before connect does
    monitors.put(connect(on_alert=lambda _: monitors.get().close("stopped")))
    collector.wait_for(lambda seen: bool(seen.batches) and seen.batches[-1].end == "stopped")


def test_a_monitor_that_on_alert_has_closed_is_delivered_before_the_script_ends(collector):
    """The script ends while the callback still runs; the exit waits for the thread that has to deliver the end."""
    alert = trainer_hooks.AlertNotice(id="a", kind="k", severity="critical", opened_step=1, summary="s")
    collector.receipt = lambda batch: Receipt(run_id="r", accepted=len(batch.records), alerts=[alert])
    script = """
        import atexit, threading
        is_closed, is_at_exit, monitors = threading.Event(), threading.Event(), []
        is_connected = threading.Event()

        def stop(alert):
            is_connected.wait()
            monitors[0].close("stopped")
            is_closed.set()
            is_at_exit.wait()

        monitors.append(trainer_hooks.connect(on_alert=stop))
        is_connected.set()
        atexit.register(is_at_exit.set)  # called before the exit handler of the monitor
        is_closed.wait()
        """
    run_script(collector, script, check=True)
    assert [batch.end for batch in collector.batches if batch.end] == ["stopped"]


def test_an_internal_error_does_not_reach_training(collector, connect, monkeypatch, swallowed):
    """A bug in the reduction costs the token arrays; the scalars arrive."""
    error = RuntimeError("ours")

    def break_down(*_, **__):
        raise error

    monkeypatch.setattr("trainer_hooks.recording.records.reduce", break_down)
    monitor = connect()
    monitor.log_step(1, {"x": 1.0}, rollouts={"logprobs": [[-1.0]], "mask": [[1]], "rewards": [1.0]})
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.records[0].scalars == {"x": 1.0}
    assert swallowed == [error]
    swallowed.clear()


def run_script(collector, script, *, check, folder=None):
    """Run a trainer of a few lines in its own process, in a folder whose modules it can import."""
    code = "import os, sys, trainer_hooks\n" + textwrap.dedent(script)
    environ = {**os.environ, "RLVITALS_URL": collector.url, "RLVITALS_RUN": "r"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, timeout=120, check=check, cwd=folder)


def test_a_script_that_just_ends_loses_nothing(collector):
    """Without close, the exit of the interpreter delivers the records and the end `finished`.

    An error that a notebook's cell raised before the connection is not one of the run.
    """
    earlier = "sys.last_value = ValueError('of an earlier cell')\n"
    script = earlier + "m = trainer_hooks.connect()\nfor s in range(50): m.log_step(s, {'x': 1.0})"
    run_script(collector, script, check=True)
    assert [record.step for record in collector.records] == list(range(50))
    assert collector.batches[-1].end == "finished"


def test_a_script_that_raises_is_reported_as_stopped(collector):
    """An exit by an exception delivers too, and the end is `stopped`.

    The exception has the place in memory of an earlier one that is gone.
    """
    script = """
        sys.last_value = ValueError()
        place = id(sys.last_value)
        m = trainer_hooks.connect()
        m.log_step(1, {"x": 1.0})
        del sys.last_value
        others = []
        while id(error := KeyError("of this run")) != place:
            others.append(error)
        raise error
    """
    done = run_script(collector, script, check=False)
    assert done.returncode == 1
    assert b"of this run" in done.stderr
    assert len(collector.records) == 1
    assert collector.batches[-1].end == "stopped"


def test_an_interrupt_of_close_does_not_keep_the_exit_from_delivering(collector):
    """Ctrl-C comes while the collector answers; the exit handler waits for the rest, which is the end of the run."""

    def receipt(batch):
        if batch.records:
            os.kill(batch.config["pid"], signal.SIGINT)
        return Receipt(run_id="r", accepted=len(batch.records))

    collector.receipt = receipt
    script = """
        m = trainer_hooks.connect(config={"pid": os.getpid()})
        m.log_step(1, {"x": 1.0})
        m.close()
        """
    assert b"KeyboardInterrupt" in run_script(collector, script, check=False).stderr
    assert [record.step for record in collector.records] == [1]
    assert collector.batches[-1].end == "finished"


def test_many_monitors_wait_together_for_a_collector_that_does_not_answer_at_the_exit(tmp_path):
    """The exit of a script takes about as long as with one monitor, and every record is on disk."""
    script = """
import atexit, time

atexit.register(lambda: print(time.monotonic() - begun))  # the last to be called
import trainer_hooks
from trainer_hooks.monitor import Monitor

Monitor.__init__.__kwdefaults__["close_timeout_seconds"] = 2.0
for run in range(16):
    trainer_hooks.connect(run=f"r{run}").log_step(1, {"x": 1.0})
begun = time.monotonic()
"""
    with nobody_answers() as url:
        environ = {**os.environ, "RLVITALS_URL": url, "RLVITALS_SPOOL_DIR": str(tmp_path)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environ, timeout=120, check=True, stdout=subprocess.PIPE)
    assert float(done.stdout) < 20.0  # one after the other they would take half a minute
    assert len({path.parent.parent for path in tmp_path.rglob("*-1.msgpack")}) == 16


def test_a_forked_child_waits_for_its_collector_although_its_parent_has_many_monitors(collector):
    """The parent's monitors are silent in the child, so that they take no share of the time of its exit."""

    def wait_for_answer(batch):
        if batch.run == "child":
            threading.Event().wait(0.5)
        return Receipt(run_id="r", accepted=len(batch.records))

    collector.receipt = wait_for_answer
    script = """
        import multiprocessing

        def train():
            trainer_hooks.connect(run="child").log_step(1, {"x": 1.0})

        monitors = [trainer_hooks.connect(run=f"r{run}") for run in range(24)]
        child = multiprocessing.get_context("fork").Process(target=train)
        child.start()
        child.join()
        for monitor in monitors: monitor.close()
        """
    run_script(collector, script, check=True)
    assert [batch.end for batch in collector.batches if batch.run == "child"][-1] == "finished"


def test_a_forked_child_is_silent(collector):
    """A data loader's worker has a monitor that does nothing, and says so; the parent goes on, and neither hangs."""
    script = """
        m = trainer_hooks.connect()
        m.log_step(1, {"x": 1.0})
        child = os.fork()
        m.log_step(2, {"who": float(child == 0)})
        if child:
            assert os.waitpid(child, 0)[1] == 0
        m.close()
        """
    done = run_script(collector, script, check=True)
    assert [(record.step, record.scalars.get("who")) for record in collector.records] == [(1, None), (2, 0.0)]
    assert done.stderr.count(b"NOTHING IS RECORDED: this monitor was made in another process") == 1
    assert sum(batch.end is not None for batch in collector.batches) == 1


def test_a_child_that_is_forked_while_the_spool_is_made_does_not_hold_its_lock(collector):
    """Nor one of a dead process: nobody could send what it has left, for as long as a child of this one lives."""
    script = """
        from trainer_hooks.settings import spool_dir
        from trainer_hooks.wire import Batch, encode, run_id

        def fork(event, arguments):
            if event in ("os.mkdir", "os.rmdir") and os.path.exists(f"{arguments[0]}.lock"):
                child = os.fork()
                if not child:
                    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
                    os._exit(sum(file.endswith(".lock") for file in files))
                held.append(os.waitpid(child, 0)[1])

        held = []
        sys.addaudithook(fork)
        for name in ("1-0-0a0a0a0a", "2-0-0a0a0a0a"):  # more than there is room for at once
            folder = spool_dir() / run_id("default", "r") / name
            folder.mkdir(parents=True)
            (folder / "0000000000-1.msgpack").write_bytes(encode(Batch(schema_version=1, run="r")))
        os.environ["RLVITALS_SPOOL_BYTES"] = "4096"
        with trainer_hooks.connect() as m, trainer_hooks.connect() as another:
            for monitor in (m, another):
                monitor.log_step(1, {"x": 1.0})
                assert monitor.flush(60)
        assert len(held) > 2 and not any(held), held
        """
    assert b"Exception" not in run_script(collector, script, check=True).stderr


def test_a_spawned_child_that_is_given_the_monitor_is_silent(collector, tmp_path):
    """A spawned data loader's worker unpickles a monitor that does nothing; the parent's continues."""
    script = tmp_path / "spawning.py"
    script.write_text("""
import copy, multiprocessing, trainer_hooks

def work(monitor):
    monitor.log_step(2, {"who": 1.0})
    monitor.close()

if __name__ == "__main__":
    monitor = trainer_hooks.connect()
    monitor.log_step(1, {"who": 0.0})
    child = multiprocessing.get_context("spawn").Process(target=work, args=(monitor,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert copy.copy(monitor) is copy.deepcopy(monitor) is monitor
    monitor.log_step(2, {"who": 0.0})
""")
    environ = {**os.environ, "RLVITALS_URL": collector.url, "RLVITALS_RUN": "r"}
    done = subprocess.run([sys.executable, str(script)], env=environ, timeout=120, check=True, stderr=subprocess.PIPE)
    assert done.stderr.count(b"NOTHING IS RECORDED: this monitor was made in another process") == 1
    assert [(record.step, record.scalars["who"]) for record in collector.records] == [(1, 0.0), (2, 0.0)]
    assert sum(batch.end is not None for batch in collector.batches) == 1


def test_a_spawned_child_that_imports_a_script_that_connects_is_silent(collector, tmp_path):
    """A connection of a data loader's worker would be a newer attempt, and no detector would see the training."""
    script = tmp_path / "connecting.py"
    script.write_text("""
import logging, multiprocessing, trainer_hooks

logging.basicConfig()
monitor = trainer_hooks.connect()

def work():
    assert isinstance(monitor, trainer_hooks.NullMonitor)
    monitor.log_step(1, {"who": 1.0})
    monitor.close()
    own = trainer_hooks.connect(run="of a function that trains")
    assert not isinstance(own, trainer_hooks.NullMonitor)
    own.log_step(1, {"who": 2.0})
    own.close()

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    monitor.log_step(1, {"who": 0.0})
""")
    environ = {**os.environ, "RLVITALS_URL": collector.url, "RLVITALS_RUN": "r"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environ, timeout=120, check=True, stderr=subprocess.PIPE, text=True
    )
    assert "NOTHING IS RECORDED: connect was called while a process of multiprocessing imported" in done.stderr
    assert {record.scalars["who"] for record in collector.records} == {0.0, 2.0}
    assert len({batch.attempt for batch in collector.batches if batch.run == "r"}) == 1


def test_a_worker_of_a_pool_that_imports_a_module_that_connects_is_silent(collector, tmp_path):
    """So is the forkserver that preloads such a module; a training that a task imports is a launch of its own."""
    (tmp_path / "preloaded.py").write_text("import trainer_hooks\nmonitor = trainer_hooks.connect()")
    (tmp_path / "training.py").write_text("import trainer_hooks\nmonitor = trainer_hooks.connect(run='of a task')")
    (tmp_path / "rewards.py").write_text("""
import preloaded, trainer_hooks

monitor = trainer_hooks.connect()

def score():
    return [type(monitor).__name__ for monitor in (preloaded.monitor, monitor)]

def train():
    import training

    training.monitor.log_step(1, {"x": 1.0})
    training.monitor.close()
""")
    script = """
        from concurrent.futures import ProcessPoolExecutor
        import multiprocessing, rewards

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["preloaded"])
        assert rewards.score() == ["Monitor", "Monitor"]
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            assert pool.submit(rewards.score).result() == ["NullMonitor", "NullMonitor"]
            pool.submit(rewards.train).result()
        rewards.monitor.log_step(1, {"x": 0.0})
        """
    run_script(collector, script, check=True, folder=tmp_path)
    assert sorted(record.scalars["x"] for record in collector.records) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("method", "ending", "end"),
    [("fork", "pass", "finished"), ("fork", "sys.exit(2)", "stopped"), ("spawn", "1 / 0", "stopped")],
)
def test_a_training_in_a_process_of_multiprocessing_just_ends_too(collector, tmp_path, method, ending, end):
    """A forked one, as of a launcher that tries again, ends without exit handlers; an earlier error is not its own."""
    script = tmp_path / "launching.py"
    script.write_text(f"""
import multiprocessing, sys, trainer_hooks

def train():
    trainer_hooks.connect().log_step(1, {{"x": 1.0}})
    {ending}

if __name__ == "__main__":
    sys.last_value = ValueError("of an earlier cell")
    try:
        raise RuntimeError("of an earlier try")
    except RuntimeError:
        child = multiprocessing.get_context("{method}").Process(target=train)
        child.start()
    child.join()
""")
    environ = {**os.environ, "RLVITALS_URL": collector.url, "RLVITALS_RUN": "r"}
    subprocess.run([sys.executable, str(script)], env=environ, timeout=120, check=True, stderr=subprocess.DEVNULL)
    assert [record.step for record in collector.records] == [1]
    assert [batch.end for batch in collector.batches if batch.end] == [end]


def test_logging_during_the_exit_of_the_interpreter_raises_nothing(collector):
    """Other exit handlers, threads and finalisers log after our exit handler; stderr has no traceback."""
    script = """
        import atexit, threading, time

        class Late:
            def __del__(self):
                m.log_step(9, {"x": 1.0})
                m.close()

        def tick():
            while True:
                m.log_step(8, {"x": 1.0})
                time.sleep(0.001)

        atexit.register(lambda: m.log_step(7, {"x": 1.0}))
        m = trainer_hooks.connect()
        late = Late()
        for s in range(5): m.log_step(s, {"x": 1.0})
        m.flush()
        threading.Thread(target=tick, daemon=True).start()
        """
    done = run_script(collector, script, check=True)
    assert [record.step for record in collector.records][:5] == list(range(5))
    assert collector.batches[-1].end == "finished"
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_sigterm_that_the_script_turns_into_an_exit_delivers_everything(collector):
    """With the common handler, `sys.exit`, our exit handler sends the remaining records."""
    script = """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        m = trainer_hooks.connect()
        for s in range(50): m.log_step(s, {"x": 1.0})
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        """
    assert run_script(collector, script, check=False).returncode == 143
    assert [record.step for record in collector.records] == list(range(50))


def test_steps_go_out_in_batches(collector, connect):
    """A thousand steps that are logged at once need only a few requests."""
    monitor = connect()
    for step in range(1000):
        monitor.log_step(step, {"x": 1.0})
    assert monitor.flush(PATIENCE_SECONDS)
    assert len(collector.records) == 1000
    assert len(collector.batches) < 100


def test_a_killed_trainer_leaves_what_it_sent(collector):
    """After kill -9 the answered records are stored, and the run has no end."""
    script = """
        import signal
        m = trainer_hooks.connect()
        m.log_step(1, {"x": 1.0})
        assert m.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    assert run_script(collector, script, check=False).returncode == -signal.SIGKILL
    assert len(collector.records) == 1
    assert collector.batches[-1].end is None


def test_the_key_goes_with_every_batch(collector, connect):
    """Every request has the key as a bearer token."""
    monitor = connect(api_key="secret")
    assert monitor.flush(PATIENCE_SECONDS)
    assert collector.headers[0]["Authorization"] == "Bearer secret"


def test_an_idle_trainer_shows_that_it_lives(collector, connect, monkeypatch):
    """Without steps, heartbeats are sent, which distinguish a slow trainer from a lost one."""
    monkeypatch.setattr(exporter_module, "HEARTBEAT_SECONDS", 0.0)
    connect()
    collector.wait_for(lambda seen: len(seen.batches) >= 3)
    assert collector.records == []
