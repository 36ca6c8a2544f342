"""Encodes and decodes the messages as msgpack and JSON, and merges a step from the records of its ranks."""

import hashlib
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trainer_hooks.wire.messages import Batch, Receipt, Record
from trainer_hooks.wire.responses import Response
from trainer_hooks.wire.summaries import Summary, merge_summaries

__all__ = [
    "JSON",
    "MSGPACK",
    "READABLE_VERSIONS",
    "SCHEMA_VERSION",
    "decode_batch",
    "decode_receipt",
    "decode_record",
    "decode_response",
    "encode",
    "encode_json",
    "merge",
    "run_id",
    "spell_non_finite",
    "without_config",
]

SCHEMA_VERSION = 5
# Version 2 adds Record.actions and Record.responses, version 3 ActionReport.request_id and its outcome "received",
# version 4 ActionReport.forks and its action "fork", version 5 Response.mismatches and Response.advantages. A batch has
# the lowest version that can read it (decision 0005).
READABLE_VERSIONS = (1, 2, 3, 4, 5)
MSGPACK = "application/msgpack"
JSON = "application/json"

# The decoders are made once, on import, because msgspec prepares its description of a struct when the struct is first
# decoded. A second thread that decodes it meanwhile reads an incomplete description and crashes the process (msgspec
# 0.21).
_BATCHES = msgspec.msgpack.Decoder(Batch)
_RECEIPTS = msgspec.msgpack.Decoder(Receipt)
_RECORDS, _JSON_RECORDS = msgspec.msgpack.Decoder(Record), msgspec.json.Decoder(Record, strict=False)
_RESPONSES, _JSON_RESPONSES = msgspec.msgpack.Decoder(Response), msgspec.json.Decoder(Response, strict=False)


def run_id(project: str, run: str) -> str:
    """Compute the id of a run: the same for every rank, restart and collector."""
    return hashlib.blake2b(f"{project}\0{run}".encode(), digest_size=8).hexdigest()


def encode(message: msgspec.Struct) -> bytes:
    """Encode a wire struct as msgpack."""
    return msgspec.msgpack.encode(message)


def encode_json(message: msgspec.Struct) -> bytes:
    """Encode a wire struct as JSON, non-finite numbers as strings."""
    return json.dumps(spell_non_finite(msgspec.to_builtins(message)), allow_nan=False).encode()


def decode_batch(body: bytes, media_type: str = MSGPACK) -> Batch:
    """Decode a batch's envelope; its records stay raw for `decode_record`.

    Raises:
        msgspec.DecodeError: If the body is not msgpack or not JSON.
        msgspec.ValidationError: If a field is unknown, missing or of the wrong type; the message locates it.
    """
    if media_type != JSON:
        return _BATCHES.decode(body)
    try:
        loaded = json.loads(body)
    except json.JSONDecodeError as error:
        raise msgspec.DecodeError(f"JSON is malformed: {error}") from error
    except ValueError as error:
        raise msgspec.DecodeError(f"JSON is malformed: {_long_number(body) or error}") from error
    if isinstance(loaded, dict) and isinstance(loaded.get("records"), list):
        loaded["records"] = [msgspec.Raw(json.dumps(spell_non_finite(record)).encode()) for record in loaded["records"]]
    return msgspec.convert(loaded, Batch, strict=False)


class _LongNumber:
    """Stands for an integer with more digits than Python reads."""

    def __init__(self, digits: int) -> None:
        self.digits = digits


def _long_number(body: bytes) -> str | None:
    """Return the refusal of a JSON text for an integer with too many digits, with its place; None without one."""
    most = sys.get_int_max_str_digits()

    def read(spelled: str) -> int | _LongNumber:
        digits = len(spelled.lstrip("-"))
        return 0 if digits <= most else _LongNumber(digits)

    try:
        waiting: list[tuple[str, Any]] = [("$", json.loads(body, parse_int=read))]
    except ValueError:
        return None
    while waiting:
        place, node = waiting.pop()
        if isinstance(node, _LongNumber):
            return (
                f"an integer must have at most {most} digits, got one of {node.digits} at {place}; send a smaller one"
            )
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        waiting += [(f"{place}.{key}" if isinstance(node, dict) else f"{place}[{key}]", item) for key, item in items]
    return None


def without_config(body: bytes) -> bytes | None:
    """Return a msgpack batch with an empty configuration; None where it has none, or is no batch."""
    try:
        batch = decode_batch(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return encode(msgspec.structs.replace(batch, config={})) if batch.config else None


def decode_record(raw: msgspec.Raw | bytes, media_type: str = MSGPACK) -> Record:
    """Decode one record of a batch that came in the same media type.

    Raises:
        msgspec.ValidationError: If a field is unknown, missing or of the wrong type; the message locates it.
    """
    if media_type == JSON:
        return _JSON_RECORDS.decode(raw)
    return _RECORDS.decode(raw)


def decode_response(raw: msgspec.Raw | bytes, media_type: str = MSGPACK) -> Response:
    """Decode one response of a record that came in the same media type, and check it.

    Raises:
        msgspec.ValidationError: If a field is unknown, missing or of the wrong type; the message locates it.
        ValueError: If its arrays contradict each other.
    """
    response = _JSON_RESPONSES.decode(raw) if media_type == JSON else _RESPONSES.decode(raw)
    response.check()
    return response


def decode_receipt(body: bytes) -> Receipt:
    """Decode the collector's msgpack answer."""
    return _RECEIPTS.decode(body)


def merge(records: Iterable[Record]) -> dict[str, float]:
    """Merge the records of a step's ranks into its signals; each record is needed once, in its turn.

    Summaries merge exactly. If a scalar was sent more than once, the value of the last record counts. The records must
    be in descending order of rank, then in ascending order of sequence number, so that rank 0 is the last. A signal
    that no rank observed is absent.
    """
    scalars: dict[str, float] = {}

    def read_summaries() -> Iterator[tuple[str, Summary]]:
        for record in records:
            scalars.update(record.scalars)
            yield from record.summaries.items()

    summaries = merge_summaries(read_summaries())
    values = {name: summary.value() for name, summary in summaries.items()}
    return scalars | {name: value for name, value in values.items() if value is not None}


def spell_non_finite(value: Any) -> Any:  # noqa: ANN401 - walks any JSON tree
    """Return a JSON tree with its non-finite numbers as "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: spell_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell_non_finite(item) for item in value]
    return value
