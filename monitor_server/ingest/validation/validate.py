"""Checks a batch and its records before they are stored.

An error of the whole batch raises a `CollectorError`; an error of one record becomes a `Rejection`. This module depends
on neither HTTP nor the store.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from monitor_server.errors import InvalidField, RecordError
from monitor_server.ingest.limits import LARGEST_RANK, check_config
from monitor_server.ingest.validation.decode import check_count, check_version, decode_batch
from monitor_server.ingest.validation.fields import is_name, safe_name
from monitor_server.ingest.validation.known_batches import read_known
from monitor_server.ingest.validation.records import RecordReader, ValidRecord, known_layouts
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["ValidBatch", "read_any_batch", "read_batch", "read_known_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidBatch:
    """A batch whose fields are valid, its valid records, and the reasons for which the other records were refused."""

    run_id: str
    batch: wire.Batch
    config: bytes | None
    records: list[ValidRecord]
    rejected: list[wire.Rejection]

    @property
    def size(self) -> int:
        """The approximate memory of the batch in bytes: its records and responses as they were sent."""
        return len(self.config or b"") + sum(len(raw) for raw in self.batch.records)

    def parts(self, *, most_records: int, most_bytes: int) -> "Iterator[ValidBatch]":
        """Yield the batch in parts, to be appended one after the other, or the batch itself if it is small enough.

        A part has at most ``most_records`` valid records, of about ``most_bytes``. The first part has the configuration
        and the refused records; the last part has the end of the run.
        """
        if len(self.records) <= most_records and self.size <= most_bytes:
            yield self
            return
        ends = self._ends_of_parts(most_records, most_bytes)
        if len(ends) == 1:
            yield self
            return
        for begin, end in pairwise([0, *ends]):
            is_first, is_last = begin == 0, end == len(self.records)
            records, rejected = self.records[begin:end], self.rejected if is_first else []
            # The number of raw records is used to count the duplicates; their bytes are those of the part.
            raw = [self.batch.records[record.index] for record in records]
            raw += [self.batch.records[each.index] for each in rejected]
            batch = msgspec.structs.replace(
                self.batch,
                config=self.batch.config if is_first else None,
                end=self.batch.end if is_last else None,
                records=raw,
            )
            config = self.config if is_first else None
            yield replace(self, batch=batch, config=config, records=records, rejected=rejected)

    def _ends_of_parts(self, most_records: int, most_bytes: int) -> list[int]:
        """Return the end of each part among the valid records; a part has at least one, unless the batch has none."""
        ends: list[int] = []
        count = size = 0
        for place, record in enumerate(self.records):
            record_bytes = len(self.batch.records[record.index])
            if count and (count >= most_records or size + record_bytes > most_bytes):
                ends.append(place)
                count = size = 0
            count, size = count + 1, size + record_bytes
        return [*ends, len(self.records)]


def read_batch(
    body: bytes, *, media_type: str, encoding: str, settings: Settings, now: float | None = None
) -> ValidBatch:
    """Decompress, decode and validate a batch.

    Args:
        body: The body as it was sent.
        media_type: msgpack or JSON.
        encoding: The compression of the body; empty if it is not compressed.
        settings: The limits.
        now: Seconds since the epoch, which bound attempt numbers; the machine's clock if left out.

    Raises:
        MalformedBody: If the body does not have the stated ``media_type`` and ``encoding``.
        BodyTooLarge: If it decompresses to more than is allowed.
        InvalidField: If a field of the batch itself is wrong; `SchemaVersionMismatch` if it is the version.
    """
    now = time.time() if now is None else now
    known = read_known_batch(body, media_type=media_type, encoding=encoding, settings=settings, now=now)
    if known is not None:
        return known
    return read_any_batch(body, media_type=media_type, encoding=encoding, settings=settings, now=now)


def read_known_batch(
    body: bytes, *, media_type: str, encoding: str, settings: Settings, now: float
) -> ValidBatch | None:
    """Read a small batch of records that differ from valid ones only in their numbers; return None for any other.

    This takes a fraction of the time of `read_any_batch`, also if it returns None. Arguments and errors are those of
    `read_batch`.
    """
    if media_type == wire.JSON or encoding not in ("", "identity"):
        return None
    known = read_known(body, settings=settings, layouts=known_layouts(settings))
    if known is None:
        return None
    batch, records = known
    _check_batch(batch, settings, now=now)
    run_id = wire.run_id(batch.project, batch.run)
    return ValidBatch(run_id=run_id, batch=batch, config=None, records=records, rejected=[])


def read_any_batch(body: bytes, *, media_type: str, encoding: str, settings: Settings, now: float) -> ValidBatch:
    """Read a batch record by record; arguments, errors and result are those of `read_batch`."""
    batch = decode_batch(body, media_type=media_type, encoding=encoding, settings=settings)
    _check_batch(batch, settings, now=now)
    config = _encode_config(batch, settings)
    records: list[ValidRecord] = []
    rejected: list[wire.Rejection] = []
    reader = RecordReader(settings, media_type)
    for index, raw in enumerate(batch.records):
        try:
            records.append(reader.read(index, raw))
        except RecordError as error:
            rejected.append(wire.Rejection(index=index, error=type(error).__name__, detail=str(error)))
    return ValidBatch(
        run_id=wire.run_id(batch.project, batch.run), batch=batch, config=config, records=records, rejected=rejected
    )


def _check_batch(batch: wire.Batch, settings: Settings, *, now: float) -> None:
    if batch.schema_version not in wire.READABLE_VERSIONS:
        check_version(msgspec.json.encode({"schema_version": batch.schema_version}), wire.JSON)
    for field, name in (("run", batch.run), ("project", batch.project)):
        if not is_name(name, max_chars=settings.max_name_chars):
            raise InvalidField(
                f"{field} must have 1 to {settings.max_name_chars} printable characters, got {safe_name(name)}"
            )
    largest = min(settings.max_world_size, LARGEST_RANK)
    if not 1 <= batch.world_size <= largest:
        raise InvalidField(
            f"world_size must be at least 1 and at most {largest}, got {batch.world_size}; "
            "a larger job needs a higher RLVITALS_MAX_WORLD_SIZE on the collector"
        )
    if not 0 <= batch.rank < batch.world_size:
        raise InvalidField(f"rank must lie in 0 to world_size - 1 = {batch.world_size - 1}, got {batch.rank}")
    newest = wire.find_largest_attempt(now)
    if not 0 <= batch.attempt <= newest:
        raise InvalidField(
            f"attempt must lie in 0 to {newest}, the collector's time in ms and a year, got {batch.attempt}; set "
            "RLVITALS_ATTEMPT to a count of launches or to the time of the launch in ms, and check both clocks"
        )
    check_count(len(batch.records), settings)
    if len(batch.source) > settings.max_name_chars or not batch.source.isprintable():
        raise InvalidField(
            f"source must have at most {settings.max_name_chars} printable characters, got {safe_name(batch.source)}"
        )


def _encode_config(batch: wire.Batch, settings: Settings) -> bytes | None:
    """Encode the configuration as JSON that can be sent to every reader, without secrets, which older SDKs send."""
    if batch.config is None:
        return None
    try:
        plain = wire.spell_non_finite(batch.config)
        encoded = json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidField(f"config must hold JSON values only: {error}") from error
    check_config(batch.config, encoded=encoded, max_bytes=settings.max_config_bytes)
    return json.dumps(wire.hide_secrets(plain), ensure_ascii=False).encode()
