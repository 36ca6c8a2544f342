"""Reads, decodes and checks a batch as a whole if each record differs from a valid one only in its numbers.

A trainer sends such a batch at nearly each step. Reading its records one by one costs twice as much.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated

import msgspec

from monitor_server.ingest.limits import LARGEST_TIME
from monitor_server.ingest.validation.decode import SMALL_BATCH_BYTES, SMALL_BATCH_RECORDS, Heading
from monitor_server.ingest.validation.layouts import Head, Layouts
from monitor_server.ingest.validation.records import ValidRecord
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["read_known"]


class _KnownBatch(Heading, kw_only=True, omit_defaults=True):
    """`wire.Batch` without a configuration, and whose records contain only scalars."""

    end: wire.RunEnd | None = None
    records: Annotated[list[Head], msgspec.Meta(max_length=SMALL_BATCH_RECORDS)] = msgspec.field(default_factory=list)


_BATCHES = msgspec.msgpack.Decoder(_KnownBatch)
_FIELDS = (*Heading.__struct_fields__, "end")
_VALUES = attrgetter(*_FIELDS)


def read_known(body: bytes, *, settings: Settings, layouts: Layouts) -> tuple[wire.Batch, list[ValidRecord]] | None:
    """Return a batch and its records, all of which are valid, or None for any other batch.

    The result equals that of reading the records one by one. The fields of the batch have the right types, and are not
    checked further. A batch for which None is returned may still be valid.
    """
    if len(body) > SMALL_BATCH_BYTES or not layouts:
        return None
    try:
        known = _BATCHES.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return None
    heads = known.records
    longest = max(len(known.run), len(known.project), len(known.source))
    if longest > settings.max_name_chars or len(heads) > settings.max_records:
        return None
    # The encoder writes no field twice and no unknown field, neither of the batch nor of a record. So equal bytes show
    # that the body has none.
    if wire.encode(known) != body:
        return None
    records = _valid_records(heads, layouts)
    if records is None:
        return None
    raw = [msgspec.Raw(record.body) for record in records]
    return wire.Batch(**dict(zip(_FIELDS, _VALUES(known), strict=True)), records=raw), records


def _valid_records(heads: Sequence[Head], layouts: Layouts) -> list[ValidRecord] | None:
    records: list[ValidRecord] = []
    for index, head in enumerate(heads):
        names, step, seq, sent_at = layouts.names(head.scalars), head.step, head.seq, head.time
        if names is None or not (sent_at is None or 0 <= sent_at <= LARGEST_TIME):  # NaN fails this comparison too
            return None
        body = wire.encode(head)
        records.append(ValidRecord(index=index, seq=step if seq is None else seq, step=step, body=body, names=names))
    return records
