"""From a request body to a batch whose records are still raw: bounded decompression and bounded decoding.

Knows neither HTTP nor the store; what a batch must hold is checked by `validate`.
"""

import zlib
from typing import Any

import msgspec
import zstandard

from monitor_server.errors import (
    BodyTooLarge,
    InvalidField,
    MalformedBody,
    SchemaVersionMismatch,
    UnsupportedMediaType,
)
from monitor_server.ingest.limits import check_json_values, decode_config, decoded_allowance, header_count
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["check_version", "decode_batch", "decompress"]


class _Version(msgspec.Struct):
    schema_version: int


class _Envelope(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`wire.Batch` with its two unbounded fields still raw."""

    schema_version: int
    run: str
    project: str = "default"
    attempt: int = 1
    rank: int = 0
    world_size: int = 1
    capability: wire.Capability = "L1"
    source: str = ""
    config: msgspec.Raw = msgspec.Raw(b"\xc0")
    end: wire.RunEnd | None = None
    records: msgspec.Raw = msgspec.Raw(b"\x90")


def decode_batch(body: bytes, *, media_type: str, encoding: str, settings: Settings) -> wire.Batch:
    """Decompress a body and decode all of it but its records.

    Raises:
        MalformedBody: If the body is not what ``media_type`` and ``encoding`` say.
        BodyTooLarge: If it decompresses to more than is allowed.
        InvalidField: If a field of the batch itself is wrong; `SchemaVersionMismatch` if it is the version.
    """
    decoded = decompress(body, encoding, limit=decoded_allowance(len(body), limit=settings.max_decoded_bytes))
    try:
        if media_type == wire.JSON:
            check_json_values(decoded)
            return wire.decode_batch(decoded, media_type)
        return _decode_msgpack(decoded, settings)
    except msgspec.ValidationError as error:
        check_version(decoded, media_type)
        raise InvalidField(f"{error}; the fields are those of trainer_hooks.wire.Batch, see docs/api.md") from error
    except InvalidField:
        raise
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise MalformedBody(f"the body must be one {media_type} message: {error}") from error


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


def check_version(body: bytes, media_type: str) -> None:
    """Name the schema version where it is not spoken here, rather than a field of it that is unknown here.

    Raises:
        SchemaVersionMismatch: If the body has another version.
    """
    decode = msgspec.json.decode if media_type == wire.JSON else msgspec.msgpack.decode
    try:
        version = decode(body, type=_Version).schema_version
    except (msgspec.MsgspecError, RecursionError):
        return
    if version not in wire.READABLE_VERSIONS:
        lowest, highest = wire.READABLE_VERSIONS[0], wire.READABLE_VERSIONS[-1]
        advice = "upgrade the collector" if version > highest else "upgrade rlvitals in the trainer"
        raise SchemaVersionMismatch(
            f"schema_version must be {lowest} to {highest}, got {version}; {advice}, so that both speak the same"
        )


def _decode_msgpack(body: bytes, settings: Settings) -> wire.Batch:
    envelope = msgspec.msgpack.decode(body, type=_Envelope)
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


def check_count(count: int, settings: Settings) -> None:
    """Refuse a batch of too many records.

    Raises:
        InvalidField: If there are more than the settings allow.
    """
    if count > settings.max_records:
        raise InvalidField(
            f"a batch must have at most {settings.max_records} records, got {count}; send smaller batches"
        )


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
