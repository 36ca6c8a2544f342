"""Turns a request body into validated records: bounded decompression, decoding, and the limits of what is accepted.

What concerns the whole batch raises a `CollectorError`; what concerns one record becomes a `Rejection`. Knows
neither HTTP nor the store.
"""

import json
import logging
import math
import zlib
from dataclasses import dataclass

import msgspec
import zstandard

from monitor_server.errors import (
    BodyTooLarge,
    InvalidField,
    InvalidRecord,
    MalformedBody,
    SchemaVersionMismatch,
    UnsupportedMediaType,
)
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["Entry", "Intake", "decompress", "is_name", "receive"]

log = logging.getLogger(__name__)

# Beyond 2⁵³ JSON numbers lose steps; the others keep the columns within 63 and 31 bits.
LARGEST_INTEGER = 2**53
LARGEST_RANK = 2**31 - 1
# An alert has a few severities, and each asks for one action.
MOST_ACTIONS = 100
LONGEST_REASON_CHARS = 4000


class _Version(msgspec.Struct):
    schema_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A valid record: its place in the batch, its body in msgpack without responses, and those that are valid."""

    index: int
    seq: int
    record: wire.Record
    body: bytes
    responses: list[wire.Response]
    refused_responses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A batch of which every record was looked at."""

    run_id: str
    batch: wire.Batch
    entries: list[Entry]
    rejected: list[wire.Rejection]


def receive(body: bytes, *, media_type: str, encoding: str, settings: Settings) -> Intake:
    """Decompress, decode and validate a batch.

    Raises:
        MalformedBody: If the body is not what ``media_type`` and ``encoding`` say.
        BodyTooLarge: If it decompresses to more than is allowed.
        InvalidField: If a field of the batch itself is wrong; `SchemaVersionMismatch` if it is the version.
    """
    batch = _decode(decompress(body, encoding, limit=settings.max_decoded_bytes), media_type)
    _check_batch(batch, settings)
    entries: list[Entry] = []
    rejected: list[wire.Rejection] = []
    for index, raw in enumerate(batch.records):
        try:
            entries.append(_entry(index, raw, media_type, settings))
        except InvalidRecord as error:
            rejected.append(wire.Rejection(index=index, error=type(error).__name__, detail=str(error)))
    return Intake(run_id=wire.run_id(batch.project, batch.run), batch=batch, entries=entries, rejected=rejected)


def decompress(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Decompress to at most ``limit`` bytes.

    Raises:
        MalformedBody: If the body is truncated or not compressed as ``encoding`` says.
        BodyTooLarge: If it would be larger than ``limit``.
        UnsupportedMediaType: If the encoding is neither zstd, gzip nor identity.
    """
    if encoding in ("", "identity"):
        return body
    if encoding == "gzip":
        return _gunzip(body, limit)
    if encoding == "zstd":
        return _unzstd(body, limit)
    raise UnsupportedMediaType(f"Content-Encoding must be zstd, gzip or identity, got {encoding!r}")


def is_name(name: str, *, max_chars: int) -> bool:
    """Whether a signal, run or project may be called this: printable, not empty, without outer blanks."""
    return 0 < len(name) <= max_chars and name.isprintable() and name == name.strip()


def _gunzip(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        decoded = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise MalformedBody(f"the body must be gzip as Content-Encoding says: {error}") from error
    if len(decoded) > limit:
        raise _too_large(limit)
    if not stream.eof or stream.unused_data:
        raise MalformedBody(
            f"the body must be one whole gzip stream, got one {'followed by more' if stream.eof else 'cut short'}"
        )
    return decoded


def _unzstd(body: bytes, limit: int) -> bytes:
    try:
        declared = zstandard.frame_content_size(body)
        if declared > limit:
            raise _too_large(limit)
        # One byte over the limit is enough to tell too large from malformed.
        return zstandard.ZstdDecompressor().decompress(
            body, max_output_size=limit + 1 if declared < 0 else 0, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise MalformedBody(
            f"the body must be one whole zstd frame of at most {limit} bytes as Content-Encoding says: {error}"
        ) from error


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"a body must decompress to at most {limit} bytes, got more; send smaller batches")


def _decode(body: bytes, media_type: str) -> wire.Batch:
    try:
        return wire.decode_batch(body, media_type)
    except msgspec.ValidationError as error:
        _check_version(body, media_type)
        raise InvalidField(f"{error}; the fields are those of trainer_hooks.wire.Batch, see docs/api.md") from error
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise MalformedBody(f"the body must be one {media_type} message: {error}") from error


def _check_version(body: bytes, media_type: str) -> None:
    """Say that another version is spoken, rather than which of its fields is unknown here."""
    decode = msgspec.json.decode if media_type == wire.JSON else msgspec.msgpack.decode
    try:
        version = decode(body, type=_Version).schema_version
    except msgspec.MsgspecError:
        return
    if version not in wire.READABLE_VERSIONS:
        lowest, highest = wire.READABLE_VERSIONS[0], wire.READABLE_VERSIONS[-1]
        advice = "upgrade the collector" if version > highest else "upgrade rlvitals in the trainer"
        raise SchemaVersionMismatch(
            f"schema_version must be {lowest} to {highest}, got {version}; {advice}, so that both speak the same"
        )


def _check_batch(batch: wire.Batch, settings: Settings) -> None:
    if batch.schema_version not in wire.READABLE_VERSIONS:
        _check_version(msgspec.json.encode({"schema_version": batch.schema_version}), wire.JSON)
    for field, name in (("run", batch.run), ("project", batch.project)):
        if not is_name(name, max_chars=settings.max_name_chars):
            raise InvalidField(
                f"{field} must have 1 to {settings.max_name_chars} printable characters, got {_shown(name)}"
            )
    if not 1 <= batch.world_size <= LARGEST_RANK:
        raise InvalidField(f"world_size must be at least 1, got {batch.world_size}")
    if not 0 <= batch.rank < batch.world_size:
        raise InvalidField(f"rank must lie in 0 to world_size - 1 = {batch.world_size - 1}, got {batch.rank}")
    if not 0 <= batch.attempt <= LARGEST_INTEGER:
        raise InvalidField(f"attempt must lie in 0 to 2**53, got {batch.attempt}")
    if len(batch.records) > settings.max_records:
        raise InvalidField(
            f"a batch must have at most {settings.max_records} records, got {len(batch.records)}; send smaller batches"
        )
    try:
        json.dumps(wire.spell_non_finite(batch.config), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidField(f"config must hold JSON values only: {error}") from error
    if len(batch.source) > settings.max_name_chars:
        raise InvalidField(f"source must have at most {settings.max_name_chars} characters, got {len(batch.source)}")


def _entry(index: int, raw: msgspec.Raw, media_type: str, settings: Settings) -> Entry:
    try:
        record = wire.decode_record(raw, media_type)
        _check_record(record, settings)
        wire.merge([record])
        told, record = record.responses, msgspec.structs.replace(record, responses=[])
        # What the store keeps of a record is its signals; responses have a table of their own, which is thinned.
        body = bytes(raw) if media_type != wire.JSON and not told else wire.encode(record)
    except (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InvalidRecord):
            raise
        raise InvalidRecord(str(error)) from error
    responses = _responses(told, media_type, settings)
    return Entry(
        index=index,
        seq=record.step if record.seq is None else record.seq,
        record=record,
        body=body,
        responses=responses,
        refused_responses=len(told) - len(responses),
    )


def _responses(told: list[msgspec.Raw], media_type: str, settings: Settings) -> list[wire.Response]:
    """Give the responses that are well formed and not too large; a bad one costs only itself."""
    kept: list[wire.Response] = []
    for raw in told[: settings.max_responses]:
        size = len(bytes(raw))
        if size > settings.max_response_bytes:
            log.warning("a sampled response was refused: %d bytes are more than RLVITALS_MAX_RESPONSE_BYTES", size)
            continue
        try:
            response = wire.decode_response(raw, media_type)
            wire.encode(response)  # what JSON can say and msgpack cannot, such as an integer of 80 bits, ends here
            kept.append(response)
        except (msgspec.MsgspecError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            log.warning("a sampled response was refused: %s", error)
    if len(told) > settings.max_responses:
        log.warning("%d sampled responses came in one record; RLVITALS_MAX_RESPONSES were looked at", len(told))
    return kept


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
    for name in (*record.scalars, *record.summaries):
        if not is_name(name, max_chars=settings.max_name_chars):
            raise InvalidRecord(
                f"a signal's name must have 1 to {settings.max_name_chars} printable characters, got {_shown(name)}"
            )


def _check_actions(reports: list[wire.ActionReport], settings: Settings) -> None:
    if len(reports) > MOST_ACTIONS:
        raise InvalidRecord(f"a record must have at most {MOST_ACTIONS} actions, got {len(reports)}")
    for report in reports:
        if not is_name(report.alert_id, max_chars=settings.max_name_chars):
            raise InvalidRecord(f"an action's alert_id must be the id of an alert, got {_shown(report.alert_id)}")
        if max(len(report.reason), len(report.detail)) > LONGEST_REASON_CHARS:
            raise InvalidRecord(f"an action's reason and detail must have at most {LONGEST_REASON_CHARS} characters")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}…")  # noqa: PLR2004 - enough to recognise it
