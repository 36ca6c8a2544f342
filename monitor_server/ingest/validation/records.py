"""Reads a record before it is stored: measures its raw parts, decodes it once, and has its content checked.

The parts of a msgpack record are measured while they are raw. Only a record whose parts are small enough is decoded,
and it is decoded once. An error of a record is a `RecordError`, which refuses this record alone.
"""

import functools
import logging
from collections.abc import Callable, Collection, Sequence

import msgspec

from monitor_server.errors import InvalidRecord, RecordError
from monitor_server.ingest.limits import (
    ERROR_CHARS,
    MAX_ACTION_BYTES,
    MAX_SCALARS_BYTES,
    MAX_SUMMARY_BYTES,
    header_count,
    text_bytes,
)
from monitor_server.ingest.validation.fields import (
    MAX_CACHED_NAMES,
    check_action_count,
    check_actions,
    check_data_version,
    check_head,
    check_signal_count,
    check_time,
    is_name,
    safe_name,
)
from monitor_server.ingest.validation.layouts import Head, Layouts
from monitor_server.ingest.validation.responses import DECODING_ERRORS, ResponseReader
from monitor_server.ingest.validation.shapes import Shape, check_summary, summary_shapes
from monitor_server.settings import Settings
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = ["RecordReader", "ValidRecord", "known_layouts", "record_caches"]

log = logging.getLogger(__name__)

# A record of this size is cheap whatever its content, and its error may name the field.
SMALL_RECORD_BYTES = 64 * 1024

_ABSENT = msgspec.Raw()


class _RawRecord(msgspec.Struct):
    """The fields of `wire.Record`, still raw."""

    scalars: msgspec.Raw = _ABSENT
    summaries: msgspec.Raw = _ABSENT
    actions: msgspec.Raw = _ABSENT
    responses: msgspec.Raw = _ABSENT
    data_version: msgspec.Raw = _ABSENT
    step: msgspec.Raw = _ABSENT
    seq: msgspec.Raw = _ABSENT
    time: msgspec.Raw = _ABSENT
    policy_version: msgspec.Raw = _ABSENT


_PARTS = msgspec.msgpack.Decoder(_RawRecord)


class ValidRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that may be stored: the facts that ingest needs. Its numbers stay packed.

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
    shapes: dict[str, Shape] = {}
    responses: list[wire.Response] = []
    refused_responses: int = 0


class RecordReader:
    """Reads the records of one batch.

    Args:
        settings: The limits of a record.
        media_type: The media type of the batch.
        layouts: The layouts by which records are recognised; the ones of this process are the default.
    """

    def __init__(self, settings: Settings, media_type: str, *, layouts: Layouts | None = None) -> None:
        self._settings = settings
        self._media_type = media_type
        self._valid_names = _valid_names(settings.max_name_chars)
        self._layouts = known_layouts(settings) if layouts is None else layouts
        self._responses = ResponseReader(settings, media_type)
        name_bytes = text_bytes(settings.max_name_chars)
        self._most_bytes = {
            "scalars": max(settings.max_signals * (name_bytes + 9) + 5, MAX_SCALARS_BYTES),
            "summaries": MAX_SUMMARY_BYTES,
            "actions": MAX_ACTION_BYTES,
            "data_version": name_bytes,
            "step": name_bytes,
            "seq": name_bytes,
            "time": name_bytes,
            "policy_version": name_bytes,
        }

    def read(self, index: int, raw: msgspec.Raw) -> ValidRecord:
        """Decode and check one record.

        Args:
            index: Its place in the batch.
            raw: The record in the media type of the batch.

        Raises:
            RecordError: If it cannot be stored; the message states the field.
        """
        known = None if self._media_type == wire.JSON else self._layouts.find(raw)
        if known is not None:
            return _with_known_layout(index, *known)
        try:
            record = None if self._media_type == wire.JSON else _decode_plain(raw)
            is_plain = record is not None
            if record is None:
                parts = None if self._media_type == wire.JSON else self._measure(raw)
                record = wire.decode_record(raw, self._media_type)
                if parts is not None:
                    _check_each_signal_once(record, parts)
            self._check(record)
            if is_plain and Layouts.fits(record):
                self._layouts.keep(record.scalars)
            sent = record.responses
            # The log keeps a record's signals; responses have a table of their own, which is thinned.
            if sent or self._media_type == wire.JSON:
                body = wire.encode(msgspec.structs.replace(record, responses=[]) if sent else record)
            else:
                body = bytes(raw)
        except DECODING_ERRORS as error:
            if isinstance(error, RecordError):
                raise
            raise InvalidRecord(printable(error, longest=ERROR_CHARS)) from error
        responses = self._responses.read(sent) if sent else []
        return ValidRecord(
            index=index,
            seq=record.step if record.seq is None else record.seq,
            step=record.step,
            body=body,
            names=(*record.scalars, *record.summaries),
            shapes=summary_shapes(record) if record.summaries else {},
            responses=responses,
            refused_responses=len(sent) - len(responses),
        )

    def _measure(self, raw: msgspec.Raw) -> _RawRecord:
        """Refuse a record that has too much of anything, by the counts and the bytes of its raw parts."""
        parts = _PARTS.decode(raw)
        fields = 0
        for name in parts.__struct_fields__:
            part = getattr(parts, name)
            if part is not _ABSENT:
                fields += 1
                if len(memoryview(part)) > SMALL_RECORD_BYTES:
                    self._check_counts(parts)
                most = self._most_bytes.get(name)
                if most is not None and len(memoryview(part)) > most:
                    raise InvalidRecord(f"{name} must have at most {most} bytes, got {len(memoryview(part))}")
        if fields != header_count(memoryview(raw)):
            # A field is unknown or repeated. The decoder's own error names the field of a small record.
            if len(memoryview(raw)) <= SMALL_RECORD_BYTES:
                wire.decode_record(raw)
            raise InvalidRecord("a record must have each of its fields once, and no other field")
        return parts

    def _check_counts(self, parts: _RawRecord) -> None:
        for signals in (parts.scalars, parts.summaries):
            check_signal_count(header_count(memoryview(signals)))
        check_action_count(header_count(memoryview(parts.actions)))
        responses, most = header_count(memoryview(parts.responses)), self._settings.max_records
        if responses > most:
            raise InvalidRecord(f"a record must have at most {most} responses, got {responses}")

    def _check(self, record: wire.Record) -> None:
        check_head(record)
        longest = self._settings.max_name_chars
        check_data_version(record.data_version, max_chars=longest)
        check_actions(record.actions, max_name_chars=longest)
        check_signal_count(len(record.scalars) + len(record.summaries))
        self._check_names(record.scalars)
        if record.summaries:
            self._check_names(record.summaries)
            both = record.scalars.keys() & record.summaries.keys()
            if both:
                raise InvalidRecord(f"a signal must be a scalar or a summary, got both for {safe_name(min(both))}")
            for name, summary in record.summaries.items():
                check_summary(name, summary)

    def _check_names(self, names: Collection[str]) -> None:
        if self._valid_names.issuperset(names):
            return
        longest = self._settings.max_name_chars
        wrong = next((name for name in names if not is_name(name, max_chars=longest)), None)
        if wrong is not None:
            raise InvalidRecord(
                f"a signal's name must have 1 to {longest} printable characters, got {safe_name(wrong)}"
            )
        if len(self._valid_names) + len(names) > MAX_CACHED_NAMES:
            self._valid_names.clear()
        if len(names) <= MAX_CACHED_NAMES:
            self._valid_names.update(names)


def _with_known_layout(index: int, head: Head, names: Sequence[str], body: bytes) -> ValidRecord:
    """Return a record that contains only scalars and whose names are those of a valid record."""
    check_time(head.time)
    return ValidRecord(
        index=index,
        seq=head.step if head.seq is None else head.seq,
        step=head.step,
        body=body,
        names=names,
    )


def record_caches(settings: Settings) -> dict[str, Callable[[], int]]:
    """Return functions that give the number of entries of each cache that reading records fills."""
    names, layouts = _valid_names(settings.max_name_chars), known_layouts(settings)
    return {"valid_names": lambda: len(names), "record_layouts": lambda: len(layouts)}


def known_layouts(settings: Settings) -> Layouts:
    """Return the layouts of records that were found valid under the limits of the settings."""
    return _layouts(settings.max_name_chars)


@functools.lru_cache(maxsize=16)
def _valid_names(max_chars: int) -> set[str]:  # noqa: ARG001 - one set for each limit
    """Return the names of signals that were found valid under a limit, at most `MAX_CACHED_NAMES`."""
    return set()


@functools.lru_cache(maxsize=16)
def _layouts(max_chars: int) -> Layouts:  # noqa: ARG001 - of each limit
    """Return the layouts of records that were found valid under a limit."""
    return Layouts()


def _decode_plain(raw: msgspec.Raw) -> wire.Record | None:
    """Decode a small record whose bytes equal its encoding by `wire.encode`; return None for any other record.

    Such a record has no repeated field, no repeated signal and no unknown field. It is decoded once, and not measured.
    """
    if len(memoryview(raw)) > SMALL_RECORD_BYTES:
        return None
    try:
        record = wire.decode_record(raw)
    except DECODING_ERRORS:
        return None
    return record if record.data_version is None and wire.encode(record) == bytes(raw) else None


def _check_each_signal_once(record: wire.Record, parts: _RawRecord) -> None:
    """Refuse a map that has a name twice, because only the last of the two values would be stored."""
    for field, raw, signals in (
        ("scalars", parts.scalars, record.scalars),
        ("summaries", parts.summaries, record.summaries),
    ):
        if header_count(memoryview(raw)) != len(signals):
            raise InvalidRecord(f"{field} must name each signal once")
