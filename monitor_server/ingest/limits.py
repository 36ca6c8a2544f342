"""The limits of a request, checked before it becomes Python objects.

A small body can stand for a large tree: zstd makes 128 MiB of 2 KB, and an empty list of one byte takes 56 bytes as a
Python object. So the bytes, the values and the depth of each part are bounded before the part is decoded.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from monitor_server.errors import InvalidField
from trainer_hooks.wire import MAX_CONFIG_DEPTH, MAX_CONFIG_VALUES

__all__ = [
    "ERROR_CHARS",
    "LARGEST_RANK",
    "LARGEST_TIME",
    "LONGEST_REASON_CHARS",
    "MAX_ACTIONS",
    "MAX_ACTION_BYTES",
    "MAX_HISTOGRAM_BINS",
    "MAX_JSON_BYTES",
    "MAX_JSON_VALUES",
    "MAX_SCALARS_BYTES",
    "MAX_SUMMARY_BYTES",
    "check_config",
    "check_json_size",
    "decode_config",
    "decoded_allowance",
    "header_count",
    "text_bytes",
]

# A rank of at most this value fits a column of 31 bits.
LARGEST_RANK = 2**31 - 1
# The end of the year 9999, the last year that Python's calendar represents.
LARGEST_TIME = 253_402_300_799
# An alert has a few severities, and each asks for one action.
MAX_ACTIONS = 100
LONGEST_REASON_CHARS = 4000
MAX_ACTION_BYTES = 4 * 1024 * 1024  # 100 actions whose reason and detail have 4,000 characters of four bytes, and names
# A decoder's error message may contain the wrong value, which may be long.
ERROR_CHARS = 300
# The SDK sends 2,048 bins at most.
MAX_HISTOGRAM_BINS = 65_536
# 10,000 scalars whose names have 200 characters of four bytes.
MAX_SCALARS_BYTES = 8 * 1024 * 1024
# 500 histograms of 2,048 bins in int64.
MAX_SUMMARY_BYTES = 8 * 1024 * 1024
# About 100 MB as Python objects; 10,000 records of 60 scalars hold 600,000.
MAX_JSON_VALUES = 1_000_000
# A Python string takes up to four bytes a character, and a JSON text becomes one as a whole.
MAX_JSON_BYTES = 32 * 1024 * 1024
# Telemetry of 10,000 equal records compresses to about 1/100; a small body may always grow to the floor.
MAX_EXPANSION = 256
EXPANSION_FLOOR_BYTES = 4 * 1024 * 1024

_NIL = 0xC0
_MSGPACK_COUNTS = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}  # bytes of the count that follows array16, array32, map16, map32


def decoded_allowance(body_bytes: int, *, limit: int) -> int:
    """Return how many bytes a body of this size may decompress to: in proportion to it, at most ``limit``."""
    return min(limit, max(EXPANSION_FLOOR_BYTES, MAX_EXPANSION * body_bytes))


def header_count(raw: bytes | memoryview) -> int:
    """Return the number of items in the header of a msgpack array or map, 0 for every other value; decodes nothing."""
    if not raw:
        return 0
    first = raw[0]
    if first in _MSGPACK_COUNTS:
        return int.from_bytes(raw[1 : 1 + _MSGPACK_COUNTS[first]], "big")
    return first & 0x0F if 0x80 <= first <= 0x9F else 0  # noqa: PLR2004 - fixmap and fixarray


def text_bytes(characters: int) -> int:
    """Return the most bytes of a msgpack string of so many characters, four of UTF-8 each and its header."""
    return 4 * characters + 5


def check_json_size(body: bytes) -> None:
    """Refuse a JSON text that is too long, or that may hold more values than are decoded at once.

    Every value but the first follows a comma or an opening bracket, so the number of both is an upper bound.

    Raises:
        InvalidField: If it is longer than `MAX_JSON_BYTES` or may hold more than `MAX_JSON_VALUES`.
    """
    if len(body) > MAX_JSON_BYTES:
        raise InvalidField(f"a JSON body must have at most {MAX_JSON_BYTES} bytes, got {len(body)}; send msgpack")
    values = 1 + body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > MAX_JSON_VALUES:
        raise InvalidField(
            f"a JSON body must hold at most {MAX_JSON_VALUES} values, got up to {values}; "
            "send smaller batches, or msgpack"
        )


def decode_config(raw: bytes | memoryview, *, max_bytes: int) -> dict[str, Any] | None:
    """Decode a configuration in msgpack, if it is small enough.

    Raises:
        InvalidField: If it is too large or too deep, or is not an object of JSON values.
    """
    if len(raw) == 1 and raw[0] == _NIL:
        return None
    _check_config_bytes(len(raw), max_bytes)
    try:
        config = msgspec.msgpack.decode(raw, type=dict[str, Any])
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidField(f"config must be an object of JSON values: {error}") from error
    return config


def check_config(config: dict[str, Any], *, encoded: bytes, max_bytes: int) -> None:
    """Refuse a configuration that cannot be sent to readers.

    Raises:
        InvalidField: If its JSON text is too long, it has too many values, or it is nested too deep.
    """
    _check_config_bytes(len(encoded), max_bytes)
    values, depth = _extent(config)
    if depth > MAX_CONFIG_DEPTH:
        raise _too_deep()
    if values > MAX_CONFIG_VALUES:
        raise InvalidField(f"config must hold at most {MAX_CONFIG_VALUES} values, got {values}")


def _check_config_bytes(size: int, limit: int) -> None:
    if size > limit:
        raise InvalidField(
            f"config must have at most {limit} bytes, got {size}; send less of it or raise RLVITALS_MAX_CONFIG_BYTES"
        )


def _too_deep() -> InvalidField:
    return InvalidField(f"config must be nested at most {MAX_CONFIG_DEPTH} deep, got more")


def _extent(tree: object) -> tuple[int, int]:
    """Count the values of a JSON tree and its depth, level by level, without recursion."""
    values, depth, level = 0, 0, [tree]
    while level and depth <= MAX_CONFIG_DEPTH:
        values, depth = values + len(level), depth + 1
        level = [child for node in level for child in _children(node)]
    return values, depth


def _children(node: object) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list | tuple) else ()
