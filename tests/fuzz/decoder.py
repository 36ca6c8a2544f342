"""Feeds one body of ingest to all code that reads it before and behind the log, for `make fuzz-decoder`.

The first byte of an input says how the rest is sent, so that the fuzzer reaches every decoder: its media type, its
compression, and whether the rest is compressed already or is compressed here.
"""

import gzip
import warnings

import msgspec
import zstandard

from monitor_server.errors import CollectorError
from monitor_server.ingest.validation.decode import is_small
from monitor_server.ingest.validation.validate import ValidBatch, read_batch
from monitor_server.settings import Settings
from monitor_server.step_processing.steps.rank_merging import merge_records
from trainer_hooks import wire

__all__ = ["check_body", "chosen_form"]

MEDIA_TYPES = (wire.MSGPACK, wire.JSON)
ENCODINGS = ("", "gzip", "zstd", "br")  # the last is refused
COMPRESSED_HERE = 8
# Small, so that an input of a few bytes reaches them.
SETTINGS = Settings(
    max_decoded_bytes=65_536,
    max_records=50,
    max_config_bytes=256,
    max_signals=8,
    max_name_chars=16,
    max_responses=2,
    max_response_bytes=512,
    max_world_size=8,
)
LONGEST_MESSAGE = 2_000
NOW = 1_800_000_000.0
FIRST_SERVER_ERROR = 500


def chosen_form(data: bytes) -> tuple[bytes, str, str]:
    """Return the body, its media type and its encoding that an input stands for."""
    choice, body = (data[0] if data else 0), data[1:]
    media_type, encoding = MEDIA_TYPES[choice & 1], ENCODINGS[choice >> 1 & 3]
    if choice & COMPRESSED_HERE and encoding == "gzip":
        body = gzip.compress(body, 1, mtime=0)
    elif choice & COMPRESSED_HERE and encoding == "zstd":
        body = zstandard.compress(body, 1)
    return body, media_type, encoding


def check_body(data: bytes) -> None:
    """Read one body as the collector does; raise where it would fail or store a value that it cannot read again."""
    body, media_type, encoding = chosen_form(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        is_small(body, media_type=media_type, encoding=encoding)
        try:
            valid = read_batch(body, media_type=media_type, encoding=encoding, settings=SETTINGS, now=NOW)
        except CollectorError as error:
            if error.status >= FIRST_SERVER_ERROR:
                raise
            _check_message(str(error))
            return
        _check_batch(valid)


def _check_batch(valid: ValidBatch) -> None:
    batch = valid.batch
    assert len(valid.records) + len(valid.rejected) == len(batch.records) <= SETTINGS.max_records
    for rejection in valid.rejected:
        _check_message(rejection.detail)
    if valid.config is not None:
        assert len(valid.config) <= SETTINGS.max_config_bytes
        msgspec.json.decode(valid.config)
    parts = list(valid.parts(most_records=3, most_bytes=200))
    assert [record.index for part in parts for record in part.records] == [record.index for record in valid.records]
    for record in valid.records:
        stored = wire.decode_record(record.body)
        assert not stored.responses
        assert (stored.step, len(stored.scalars) + len(stored.summaries)) == (record.step, len(record.names))
        # Two ranks have the same numbers: the projector merges them, and every reader is sent the result.
        merged = merge_records([(0, stored), (1, stored)], step=record.step, attempt=1, now=NOW, world_size=2)
        msgspec.json.encode({name: wire.spell_non_finite(value) for name, value in merged.signals.items()})
        assert len(record.responses) <= SETTINGS.max_responses
        for response in record.responses:
            response.check()
            wire.encode(response)


def _check_message(message: str) -> None:
    assert message
    assert len(message) <= LONGEST_MESSAGE
