"""Turns a request body into a batch whose records are still raw, by bounded decompression and bounded decoding.

It depends on neither HTTP nor the store. `validate` checks the content of the batch.
"""

from operator import attrgetter
from typing import Annotated, Any

import msgspec

from monitor_server.errors import (
    CollectorError,
    InvalidField,
    MalformedBody,
    SchemaVersionMismatch,
)
from monitor_server.ingest.limits import (
    ERROR_CHARS,
    check_json_size,
    decode_config,
    decoded_allowance,
    header_count,
    text_bytes,
)
from monitor_server.ingest.validation.decompression import decompress
from monitor_server.settings import Settings
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = ["Heading", "check_version", "decode_batch", "is_small"]


class _Version(msgspec.Struct):
    schema_version: int


_VERSIONS, _JSON_VERSIONS = msgspec.msgpack.Decoder(_Version), msgspec.json.Decoder(_Version)

_ABSENT = msgspec.Raw()
_LARGE_FIELDS = {"records", "config"}
SMALL_REST_BYTES = 64 * 1024
# A batch of a few steps, which is decoded within some milliseconds. Its worst case is just as cheap.
SMALL_BATCH_BYTES = 64 * 1024
SMALL_BATCH_RECORDS = 64
SMALL_BATCH_COMMAS = 2_000  # in JSON: its records cannot be counted before they are decoded


class _RawBatch(msgspec.Struct):
    """The fields of `wire.Batch`, still raw."""

    schema_version: msgspec.Raw = _ABSENT
    run: msgspec.Raw = _ABSENT
    project: msgspec.Raw = _ABSENT
    attempt: msgspec.Raw = _ABSENT
    rank: msgspec.Raw = _ABSENT
    world_size: msgspec.Raw = _ABSENT
    capability: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    config: msgspec.Raw = _ABSENT
    end: msgspec.Raw = _ABSENT
    records: msgspec.Raw = _ABSENT


_PARTS = msgspec.msgpack.Decoder(_RawBatch)


class Heading(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of `wire.Batch` before its configuration, in the wire's order."""

    schema_version: int
    run: str
    project: str = "default"
    attempt: int = 1
    rank: int = 0
    world_size: int = 1
    capability: wire.Capability = "L1"
    source: str = ""


class _Envelope(Heading, kw_only=True):
    """`wire.Batch` with its two unbounded fields still raw."""

    config: msgspec.Raw = msgspec.Raw(b"\xc0")
    end: wire.RunEnd | None = None
    records: msgspec.Raw = msgspec.Raw(b"\x90")


_ENVELOPES = msgspec.msgpack.Decoder(_Envelope)


class _Plain(Heading, kw_only=True, omit_defaults=True):
    """`wire.Batch` without a configuration, which trainers send most of the time; fields are in the wire's order."""

    end: wire.RunEnd | None = None
    records: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=SMALL_BATCH_RECORDS)] = []


_PLAIN = msgspec.msgpack.Decoder(_Plain)
_PLAIN_FIELDS = attrgetter(*_Plain.__struct_fields__)


def decode_batch(body: bytes, *, media_type: str, encoding: str, settings: Settings) -> wire.Batch:
    """Decompress a body and decode everything except its records.

    Raises:
        MalformedBody: If the body does not have the stated ``media_type`` and ``encoding``.
        BodyTooLarge: If it decompresses to more than is allowed.
        InvalidField: If a field of the batch itself is wrong; `SchemaVersionMismatch` if it is the version.
    """
    decoded = decompress(body, encoding, limit=decoded_allowance(len(body), limit=settings.max_decoded_bytes))
    try:
        if media_type == wire.JSON:
            check_json_size(decoded)
            return wire.decode_batch(decoded, media_type)
        return _decode_plain(decoded, settings) or _decode_msgpack(decoded, settings)
    except msgspec.ValidationError as error:
        check_version(decoded, media_type)
        problem = printable(error, longest=ERROR_CHARS)
        raise InvalidField(f"{problem}; the fields are those of trainer_hooks.wire.Batch, see docs/api.md") from error
    except InvalidField:
        raise
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        problem = printable(error, longest=ERROR_CHARS)
        raise MalformedBody(f"the body must be one {media_type} message: {problem}") from error


def is_small(body: bytes, *, media_type: str, encoding: str) -> bool:
    """Whether a batch is cheap to read: few bytes after decompression, and few records.

    A body that decompresses to more than the limit is not small. A body that cannot be decoded is small, because its
    error is cheap to find.
    """
    try:
        decoded = decompress(body, encoding, limit=SMALL_BATCH_BYTES)
    except CollectorError:
        return False
    if len(decoded) > SMALL_BATCH_BYTES:
        return False
    if media_type == wire.JSON:
        return decoded.count(b",") <= SMALL_BATCH_COMMAS
    try:
        records = _PARTS.decode(decoded).records
    except (msgspec.MsgspecError, RecursionError):
        return True
    return header_count(memoryview(records)) <= SMALL_BATCH_RECORDS


def check_version(body: bytes, media_type: str) -> None:
    """Refuse an unsupported schema version first, because its error is clearer than one about an unknown field.

    Raises:
        SchemaVersionMismatch: If the body has another version.
    """
    versions = _JSON_VERSIONS if media_type == wire.JSON else _VERSIONS
    try:
        version = versions.decode(body).schema_version
    except (msgspec.MsgspecError, RecursionError):
        return
    if version not in wire.READABLE_VERSIONS:
        lowest, highest = wire.READABLE_VERSIONS[0], wire.READABLE_VERSIONS[-1]
        advice = "upgrade the collector" if version > highest else "upgrade rlvitals in the trainer"
        raise SchemaVersionMismatch(
            f"schema_version must be {lowest} to {highest}, got {version}; {advice}, so that both use the same version"
        )


def _decode_plain(body: bytes, settings: Settings) -> wire.Batch | None:
    """Decode a small batch whose bytes equal its own encoding by the wire; return None for any other batch.

    Such a batch has no repeated and no unknown field. It is decoded once, and its parts are not measured.
    """
    if len(body) > SMALL_BATCH_BYTES:
        return None
    try:
        plain = _PLAIN.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return None
    longest = max(len(plain.run), len(plain.project), len(plain.source))
    if longest > settings.max_name_chars or len(plain.records) > settings.max_records:
        return None
    if msgspec.msgpack.encode(plain) != body:
        return None
    return wire.Batch(**dict(zip(_Plain.__struct_fields__, _PLAIN_FIELDS(plain), strict=True)))


def _decode_msgpack(body: bytes, settings: Settings) -> wire.Batch:
    _measure(body, settings)
    envelope = _ENVELOPES.decode(body)
    raw_records, raw_config = memoryview(envelope.records), memoryview(envelope.config)
    if envelope.schema_version in wire.READABLE_VERSIONS:
        check_count(header_count(raw_records), settings)
    try:
        records = msgspec.msgpack.decode(raw_records, type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} at `$.records`") from error
    fields: dict[str, Any] = {name: getattr(envelope, name) for name in envelope.__struct_fields__}
    config = decode_config(raw_config, max_bytes=settings.max_config_bytes)
    return wire.Batch(**fields | {"config": config, "records": records})


def _measure(body: bytes, settings: Settings) -> None:
    """Refuse a batch with a repeated field, an unknown field, or a text that is longer than any field may have.

    Raises:
        InvalidField: If the batch has one of these.
        msgspec.ValidationError: Instead, if an unknown field is small; the message names it.
    """
    parts = _PARTS.decode(body)
    longest, fields, size = text_bytes(settings.max_name_chars), 0, 0
    for name in parts.__struct_fields__:
        part = getattr(parts, name)
        if part is not _ABSENT:
            fields += 1
            part_bytes = len(memoryview(part))
            size += part_bytes
            if part_bytes > longest and name not in _LARGE_FIELDS:
                raise InvalidField(f"{name} must have at most {longest} bytes, got {part_bytes}")
    if fields != header_count(body):
        # The rest consists of the names of the fields, and of unknown fields with their values. A short rest is
        # decoded, so that the error can name the field.
        if len(body) - size <= SMALL_REST_BYTES:
            _ENVELOPES.decode(body)
        raise InvalidField("a batch must have each of its fields once, and no other field")


def check_count(count: int, settings: Settings) -> None:
    """Refuse a batch of too many records.

    Raises:
        InvalidField: If there are more than the settings allow.
    """
    if count > settings.max_records:
        raise InvalidField(
            f"a batch must have at most {settings.max_records} records, got {count}; send smaller batches"
        )
