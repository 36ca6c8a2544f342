"""Carries records to the collector without slowing or endangering training.

A record passes these modules in order:

1. `record_queue`: the training thread puts what it measured into a bounded queue in memory.
2. `batch_processor`: a background thread encodes the records and groups them into batches.
3. `sending_queue`: encoded batches wait here until the collector has answered for them. They wait on disk, in the
   `spool` (the persistent part of this queue), or in memory where the disk does not work.
4. `exporter`: a second background thread sends the oldest batch first.
5. `transport`: what carries a batch, and the backoff that delays the next attempt after a failure. `http` posts the
   batch to the collector.

`drop_counter` counts every record that is lost on the way, by reason. This package does not import `http`, because
urllib3 is only needed by a process that connects.
"""

from trainer_hooks.delivery.batch_processor import BatchEncoder, BatchProcessor, EncodedRecord, RecordEncoder
from trainer_hooks.delivery.drop_counter import DropCounter
from trainer_hooks.delivery.exporter import Exporter
from trainer_hooks.delivery.record_queue import RecordQueue
from trainer_hooks.delivery.sending_queue import SendingQueue
from trainer_hooks.delivery.spool import Spool, make_spool
from trainer_hooks.delivery.transport import BackoffTransport, Transport, send_batch

__all__ = [
    "BackoffTransport",
    "BatchEncoder",
    "BatchProcessor",
    "DropCounter",
    "EncodedRecord",
    "Exporter",
    "RecordEncoder",
    "RecordQueue",
    "SendingQueue",
    "Spool",
    "Transport",
    "make_spool",
    "send_batch",
]
