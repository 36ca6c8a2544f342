"""A Ctrl-C at any moment of a wait stops neither the next wait nor the thread that is waited for."""

import functools
import gc
import itertools
import sys
from queue import SimpleQueue

import pytest

from tests.live import PATIENCE_SECONDS
from trainer_hooks.delivery import BatchProcessor, DropCounter, EncodedRecord, RecordQueue, SendingQueue
from trainer_hooks.delivery.background_thread import BackgroundThread
from trainer_hooks.delivery.exporter import Exporter
from trainer_hooks.wire import Receipt


def is_interrupted(work, place):
    """Call a function with a Ctrl-C at one place of all Python code that it runs; return whether it got that far.

    No garbage is collected meanwhile: Python swallows an exception in a callback of the collector, so that a
    Ctrl-C there would interrupt nothing.
    """
    left, before = [place], sys.gettrace()

    def trace(*_):
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt
        return trace

    gc.disable()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def test_a_ctrl_c_anywhere_in_a_wait_leaves_the_thread_and_the_next_wait_whole():
    """Each place of the wait in turn."""
    for place in itertools.count():
        go_on = SimpleQueue()
        thread = BackgroundThread(go_on.get, name="a test")
        thread.start()
        has_place = is_interrupted(functools.partial(thread.wait_for_end, 0.0), place)
        go_on.put(None)
        thread.wait_for_end(PATIENCE_SECONDS)
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        if not has_place:
            break
    assert place > 5


class Delivery:
    """Encodes and accepts everything."""

    def encode(self, item, *, is_last=False):
        """Encode a record or a batch."""
        if isinstance(item, list) or is_last:
            return b"batch"
        return EncodedRecord(1, b"record")

    def send(self, _):
        """Accept a body."""
        return Receipt(run_id="r", accepted=0)


@pytest.mark.parametrize(("name", "seconds"), [("flush", 0.0), ("close", PATIENCE_SECONDS)])
def test_a_ctrl_c_anywhere_in_a_flush_or_a_close_leaves_the_delivery_whole(name, seconds):
    """Each place of both in turn: everything that was logged arrives, and the next `close` ends."""
    for place in itertools.count():
        drops, delivery = DropCounter(), Delivery()
        queue, sending = RecordQueue(drops), SendingQueue(drops)
        options = {"encode_heartbeat": lambda **_: b"heartbeat", "on_receipt": lambda *_: None}
        exporter = Exporter(delivery, sending, drops, **options)
        processor = BatchProcessor(queue, sending, drops, records=delivery, batches=delivery, exporter=exporter)
        processor.start()
        queue.put("step", 1)
        has_place = is_interrupted(functools.partial(getattr(processor, name), seconds), place)
        if name == "flush":
            queue.put("step", 1)
            assert processor.flush(PATIENCE_SECONDS)
        assert processor.close(PATIENCE_SECONDS)
        assert drops["unsent"] == 0
        if not has_place:
            break
    assert place > 20
