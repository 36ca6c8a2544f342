"""What a batch and its records must hold before they are stored.

What concerns the whole batch raises a `CollectorError`; what concerns one record becomes a `Rejection`. Knows
neither HTTP nor the store.
"""

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor_server.errors import InvalidField, InvalidRecord, RecordError, TooManySignals
from monitor_server.ingest.decode import check_count, check_version, decode_batch
from monitor_server.ingest.limits import (
    LARGEST_INTEGER,
    LARGEST_RANK,
    LONGEST_REASON_CHARS,
    MAX_ACTIONS,
    MAX_HISTOGRAM_BINS,
    MAX_SUMMARY_BYTES,
    check_config,
    header_count,
)
from monitor_server.ingest.shapes import Shape, summary_shapes
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["ValidBatch", "ValidRecord", "is_name", "read_batch"]

log = logging.getLogger(__name__)

# An attempt is a small number or the time of its launch in ms; clocks of trainer and collector may differ by a day.
LATEST_ATTEMPT_AHEAD_SECONDS = 86_400.0
# Below this a record cannot hold enough values to matter, whatever it consists of.
SMALL_RECORD_BYTES = 64 * 1024
# More than `wire.Record` has, and few enough to be read at once.
MAX_RECORD_FIELDS = 32
BAD_NUMBER = (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)


class _RecordParts(msgspec.Struct):
    """The unbounded fields of `wire.Record`, still raw."""

    scalars: msgspec.Raw = msgspec.Raw(b"\x80")
    summaries: msgspec.Raw = msgspec.Raw(b"\x80")
    actions: msgspec.Raw = msgspec.Raw(b"\x90")
    responses: msgspec.Raw = msgspec.Raw(b"\x90")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidRecord:
    """A record that may be stored: what ingest has to know of it, not its numbers, which stay packed.

    Attributes:
        index: Its place in the batch.
        seq: Its sequence number.
        step: Its step.
        body: The record in msgpack, without its responses.
        names: Its signals.
        shapes: The shape of each of its summaries.
        responses: Its valid responses.
        refused_responses: How many others it had.
    """

    index: int
    seq: int
    step: int
    body: bytes
    names: Sequence[str]
    shapes: dict[str, Shape]
    responses: list[wire.Response]
    refused_responses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidBatch:
    """A batch whose fields are valid, its valid records, and why the others were refused."""

    run_id: str
    batch: wire.Batch
    config: bytes | None
    records: list[ValidRecord]
    rejected: list[wire.Rejection]


def read_batch(
    body: bytes, *, media_type: str, encoding: str, settings: Settings, now: float | None = None
) -> ValidBatch:
    """Decompress, decode and validate a batch.

    Args:
        body: As it was sent.
        media_type: msgpack or JSON.
        encoding: How it is compressed; empty if it is not.
        settings: The limits.
        now: Seconds since the epoch, against which attempt numbers are held; the machine's clock if left out.

    Raises:
        MalformedBody: If the body is not what ``media_type`` and ``encoding`` say.
        BodyTooLarge: If it decompresses to more than is allowed.
        InvalidField: If a field of the batch itself is wrong; `SchemaVersionMismatch` if it is the version.
    """
    batch = decode_batch(body, media_type=media_type, encoding=encoding, settings=settings)
    _check_batch(batch, settings, now=time.time() if now is None else now)
    config = _encode_config(batch, settings)
    records: list[ValidRecord] = []
    rejected: list[wire.Rejection] = []
    for index, raw in enumerate(batch.records):
        try:
            records.append(_read_record(index, raw, media_type, settings))
        except RecordError as error:
            rejected.append(wire.Rejection(index=index, error=type(error).__name__, detail=str(error)))
    return ValidBatch(
        run_id=wire.run_id(batch.project, batch.run), batch=batch, config=config, records=records, rejected=rejected
    )


def is_name(name: str, *, max_chars: int) -> bool:
    """Whether a signal, run or project may be called this: printable, not empty, without outer blanks."""
    return 0 < len(name) <= max_chars and name.isprintable() and name == name.strip()


def _check_batch(batch: wire.Batch, settings: Settings, *, now: float) -> None:
    if batch.schema_version not in wire.READABLE_VERSIONS:
        check_version(msgspec.json.encode({"schema_version": batch.schema_version}), wire.JSON)
    for field, name in (("run", batch.run), ("project", batch.project)):
        if not is_name(name, max_chars=settings.max_name_chars):
            raise InvalidField(
                f"{field} must have 1 to {settings.max_name_chars} printable characters, got {_shown(name)}"
            )
    largest = min(settings.max_world_size, LARGEST_RANK)
    if not 1 <= batch.world_size <= largest:
        raise InvalidField(
            f"world_size must be at least 1 and at most {largest}, got {batch.world_size}; "
            "a larger job needs a higher RLVITALS_MAX_WORLD_SIZE on the collector"
        )
    if not 0 <= batch.rank < batch.world_size:
        raise InvalidField(f"rank must lie in 0 to world_size - 1 = {batch.world_size - 1}, got {batch.rank}")
    latest = int((now + LATEST_ATTEMPT_AHEAD_SECONDS) * 1000)
    if not 0 <= batch.attempt <= min(latest, LARGEST_INTEGER):
        raise InvalidField(
            f"attempt must lie in 0 to {latest}, the collector's time in ms and a day, got {batch.attempt}; set "
            "RLVITALS_ATTEMPT to a count of launches or to the time of the launch in ms, and check both clocks"
        )
    check_count(len(batch.records), settings)
    if len(batch.source) > settings.max_name_chars or not batch.source.isprintable():
        raise InvalidField(
            f"source must have at most {settings.max_name_chars} printable characters, got {_shown(batch.source)}"
        )


def _encode_config(batch: wire.Batch, settings: Settings) -> bytes | None:
    """Encode the configuration as JSON that every reader can be given."""
    if batch.config is None:
        return None
    try:
        encoded = json.dumps(wire.spell_non_finite(batch.config), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidField(f"config must hold JSON values only: {error}") from error
    check_config(batch.config, encoded=encoded, max_bytes=settings.max_config_bytes)
    return encoded


def _read_record(index: int, raw: msgspec.Raw, media_type: str, settings: Settings) -> ValidRecord:
    try:
        if media_type != wire.JSON:
            _check_fields(raw)
            if len(memoryview(raw)) > SMALL_RECORD_BYTES:
                _check_parts(msgspec.msgpack.decode(raw, type=_RecordParts), settings)
        record = wire.decode_record(raw, media_type)
        _check_record(record, settings)
        wire.merge([record])
        sent, record = record.responses, msgspec.structs.replace(record, responses=[])
        # The log keeps a record's signals; responses have a table of their own, which is thinned.
        body = bytes(raw) if media_type != wire.JSON and not sent else wire.encode(record)
    except BAD_NUMBER as error:
        if isinstance(error, RecordError):
            raise
        raise InvalidRecord(str(error)) from error
    responses = _read_responses(sent, media_type, settings)
    return ValidRecord(
        index=index,
        seq=record.step if record.seq is None else record.seq,
        step=record.step,
        body=body,
        names=(*record.scalars, *record.summaries),
        shapes=summary_shapes(record),
        responses=responses,
        refused_responses=len(sent) - len(responses),
    )


def _check_fields(raw: msgspec.Raw) -> None:
    """Refuse a record that has a field twice: each occurrence would be decoded, and only the last be checked."""
    fields = header_count(memoryview(raw))
    if fields > MAX_RECORD_FIELDS:
        raise InvalidRecord(f"a record must have at most {MAX_RECORD_FIELDS} fields, got {fields}")
    if fields != len(msgspec.msgpack.decode(raw, type=dict[str, msgspec.Raw])):
        raise InvalidRecord("a record must have each of its fields once")


def _check_parts(parts: _RecordParts, settings: Settings) -> None:
    """Refuse a large record that has too many of anything, by the counts in front of its parts."""
    for signals in (parts.scalars, parts.summaries):
        _check_signal_count(header_count(memoryview(signals)), settings)
    if len(memoryview(parts.summaries)) > MAX_SUMMARY_BYTES:
        raise InvalidRecord(f"a record's summaries must have at most {MAX_SUMMARY_BYTES} bytes")
    _check_action_count(header_count(memoryview(parts.actions)))
    responses = header_count(memoryview(parts.responses))
    if responses > settings.max_records:
        raise InvalidRecord(f"a record must have at most {settings.max_records} responses, got {responses}")


def _check_signal_count(count: int, settings: Settings) -> None:
    if count > settings.max_signals:
        raise TooManySignals(
            f"a run must have at most {settings.max_signals} signals, got {count} in one record; "
            "send fewer names or raise RLVITALS_MAX_SIGNALS"
        )


def _check_action_count(count: int) -> None:
    if count > MAX_ACTIONS:
        raise InvalidRecord(f"a record must have at most {MAX_ACTIONS} actions, got {count}")


def _read_responses(sent: Sequence[msgspec.Raw], media_type: str, settings: Settings) -> list[wire.Response]:
    """Return the responses that are well formed and not too large; a bad one costs only itself."""
    responses: list[wire.Response] = []
    for raw in sent[: settings.max_responses]:
        size = len(memoryview(raw))
        if size > settings.max_response_bytes:
            log.warning("a sampled response was refused: %d bytes are more than RLVITALS_MAX_RESPONSE_BYTES", size)
            continue
        try:
            response = wire.decode_response(raw, media_type)
            wire.encode(response)  # refuses what JSON can say and msgpack cannot, such as an integer of 80 bits
            responses.append(response)
        except BAD_NUMBER as error:
            log.warning("a sampled response was refused: %s", error)
    if len(sent) > settings.max_responses:
        log.warning("%d sampled responses came in one record; only RLVITALS_MAX_RESPONSES were read", len(sent))
    return responses


def _check_record(record: wire.Record, settings: Settings) -> None:
    numbers = {"step": record.step, "seq": record.seq, "policy_version": record.policy_version}
    for field, number in numbers.items():
        if number is not None and not 0 <= number <= LARGEST_INTEGER:
            raise InvalidRecord(f"{field} must lie in 0 to 2**53, got {number}")
    if record.time is not None and not (math.isfinite(record.time) and record.time >= 0):
        raise InvalidRecord(f"time must be finite seconds since the epoch, got {record.time}")
    if record.data_version is not None and len(record.data_version) > settings.max_name_chars:
        raise InvalidRecord(f"data_version must have at most {settings.max_name_chars} characters")
    _check_actions(record.actions, settings)
    both = record.scalars.keys() & record.summaries.keys()
    if both:
        raise InvalidRecord(f"a signal must be a scalar or a summary, got both for {_shown(min(both))}")
    _check_signal_count(len(record.scalars) + len(record.summaries), settings)
    for name in (*record.scalars, *record.summaries):
        if not is_name(name, max_chars=settings.max_name_chars):
            raise InvalidRecord(
                f"a signal's name must have 1 to {settings.max_name_chars} printable characters, got {_shown(name)}"
            )
    for name, summary in record.summaries.items():
        _check_counts(name, summary)


def _check_counts(name: str, summary: wire.Summary) -> None:
    """Refuse counts that nothing can have been counted by: they merge to divisions by zero on another rank."""
    if isinstance(summary, wire.Moments):
        count = summary.count
        if not (math.isfinite(count) and count == int(count) and 0 <= count <= LARGEST_INTEGER):
            raise InvalidRecord(f"count of {_shown(name)} must be a whole number in 0 to 2**53, got {count}")
    elif isinstance(summary, wire.Histogram):
        counts = summary.counts.to_numpy()
        if counts.ndim != 1 or counts.size > MAX_HISTOGRAM_BINS:
            raise InvalidRecord(
                f"counts of {_shown(name)} must have a shape (bins,) of at most {MAX_HISTOGRAM_BINS} bins, "
                f"got {summary.counts.shape}"
            )
        is_whole = _is_whole(counts)
        if not is_whole.all():
            raise InvalidRecord(
                f"counts of {_shown(name)} must be whole numbers in 0 to 2**53, got {counts[~is_whole][0]}"
            )


def _is_whole(counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the counts are whole numbers that a count can be, shape ``(bins,)``."""
    if counts.dtype.kind in {"b", "u"}:
        return np.ones(counts.shape, dtype=np.bool_)
    counts = counts.astype(np.float64)
    is_whole: NDArray[np.bool_] = np.isfinite(counts) & (counts >= 0) & (counts <= LARGEST_INTEGER)
    is_whole[is_whole] = counts[is_whole] == np.floor(counts[is_whole])
    return is_whole


def _check_actions(reports: list[wire.ActionReport], settings: Settings) -> None:
    _check_action_count(len(reports))
    for report in reports:
        if not is_name(report.alert_id, max_chars=settings.max_name_chars):
            raise InvalidRecord(f"an action's alert_id must be the id of an alert, got {_shown(report.alert_id)}")
        if max(len(report.reason), len(report.detail)) > LONGEST_REASON_CHARS:
            raise InvalidRecord(f"an action's reason and detail must have at most {LONGEST_REASON_CHARS} characters")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}…")  # noqa: PLR2004 - enough to recognise it
