"""The exporter and those who wait for a flush get what is encoded, also while more and more is to be encoded."""

import itertools
import threading

import pytest

from tests.live import PATIENCE_SECONDS
from trainer_hooks.delivery import BatchProcessor, DropCounter, EncodedRecord, RecordQueue, SendingQueue
from trainer_hooks.delivery import exporter as exporter_module
from trainer_hooks.delivery.exporter import Exporter
from trainer_hooks.wire import Receipt


class Batches:
    """Encodes the number of a batch's records."""

    def encode(self, records, *, is_last=False):
        """Encode a batch."""
        return b"end" if is_last else b"%d records" % len(records)


class Transport:
    """Accepts every body, and says when the first of each kind has come."""

    def __init__(self):
        self.has_heartbeat, self.has_records = threading.Event(), threading.Event()

    def send(self, body):
        """Accept a body."""
        (self.has_heartbeat if body == b"heartbeat" else self.has_records).set()
        return Receipt(run_id="r", accepted=0)


@pytest.fixture
def start(monkeypatch):
    """Start a processor with a function that encodes, seconds from each look at the clock to the next, and a queue."""
    monkeypatch.setattr(exporter_module, "HEARTBEAT_SECONDS", 10 * PATIENCE_SECONDS)
    processors = []

    def start(encode, *, queue, drops, transport, seconds):
        class Records:
            def encode(self, item):
                encode(item)
                return EncodedRecord(1, b"record")

        sending = SendingQueue(drops)
        exporter = Exporter(
            transport, sending, drops, encode_heartbeat=lambda **_: b"heartbeat", on_receipt=lambda *_: None
        )
        clock = itertools.count(step=seconds).__next__
        processor = BatchProcessor(
            queue, sending, drops, records=Records(), batches=Batches(), exporter=exporter, clock=clock
        )
        processors.append(processor)
        processor.start()
        return processor

    yield start
    for processor in processors:
        processor.close(10**9)


def test_a_flush_ends_while_steps_arrive_as_fast_as_they_are_encoded(start):
    """Another step is logged whenever one is encoded, so that the queue is never empty."""
    drops, has_ended = DropCounter(), threading.Event()
    queue = RecordQueue(drops)

    def encode(item):
        if not has_ended.is_set():
            queue.put(item, 1)

    queue.put("step", 1)
    processor = start(encode, queue=queue, drops=drops, transport=Transport(), seconds=0.01)
    is_flushed = processor.flush(PATIENCE_SECONDS)
    has_ended.set()
    assert is_flushed


def test_the_first_steps_of_a_backlog_are_sent_while_the_others_are_encoded(start):
    """The third step of a slow encoder is encoded once the first one has arrived."""
    drops, transport, found = DropCounter(), Transport(), []
    queue = RecordQueue(drops)

    def encode(step):
        if step == 1:
            transport.has_heartbeat.wait(PATIENCE_SECONDS)
        elif step == 3:
            found.append(transport.has_records.wait(PATIENCE_SECONDS))

    for step in (1, 2, 3):
        queue.put(step, 1)
    assert start(encode, queue=queue, drops=drops, transport=transport, seconds=1.0).flush(PATIENCE_SECONDS)
    assert found == [True]
