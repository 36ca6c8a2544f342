"""Records that differ from a valid one in their numbers alone are read without being decoded, with the same result."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.errors import RecordError
from monitor_server.ingest.validation.layouts import Layouts
from monitor_server.ingest.validation.records import RecordReader
from monitor_server.settings import Settings
from trainer_hooks import wire

NAMES = [f"signal/{place}" for place in range(10)]
SETTINGS = Settings(dashboard="")


class NoLayouts(Layouts):
    """Finds nothing, so that each record is decoded."""

    def find(self, raw):
        """Return None."""


def _reader(layouts):
    return RecordReader(SETTINGS, wire.MSGPACK, layouts=layouts)


def _read(reader, raw):
    try:
        return reader.read(0, msgspec.Raw(raw))
    except RecordError as error:
        return type(error), str(error)


def _record(values, **fields):
    return wire.encode(wire.Record(scalars=dict(zip(NAMES, values, strict=True)), **fields))


def _new_reader():
    """A reader that has seen a valid record."""
    reader = _reader(Layouts())
    reader.read(0, msgspec.Raw(_record([0.5] * 10, step=1, time=1.0)))
    return reader


@pytest.fixture(scope="module")
def readers():
    """A reader that has read a valid record before, and one that decodes each record."""
    return _new_reader(), _reader(NoLayouts())


FIELDS = st.fixed_dictionaries(
    {"step": st.integers(-1, 2**54)},
    optional={
        "seq": st.none() | st.integers(-1, 2**54),
        "time": st.floats(),
        "policy_version": st.integers(-1, 2**20),
        "data_version": st.just("v"),
    },
)


@given(values=st.lists(st.floats(), min_size=10, max_size=10), fields=FIELDS)
def test_a_record_with_known_names_is_read_as_one_that_is_decoded(readers, values, fields):
    """This holds for any numbers, step and time, valid or refused."""
    known, decoding = readers
    raw = _record(values, **fields)
    assert _read(known, raw) == _read(decoding, raw)


@given(
    place=st.integers(0, 10_000),
    bytes_=st.binary(min_size=1, max_size=3),
    cut=st.integers(0, 3),
    insertion=st.booleans(),
)
def test_a_record_with_other_bytes_is_read_as_one_that_is_decoded(readers, place, bytes_, cut, insertion):
    """Bytes that are changed, inserted or left out anywhere: names, marks, lengths, fields that stand twice."""
    known, decoding = readers
    raw = _record([math.pi] * 10, step=300, time=2.0)
    place %= len(raw)
    raw = raw[:place] + bytes_ + raw[place + (0 if insertion else len(bytes_)) + cut :]
    assert _read(known, raw) == _read(decoding, raw)


def test_a_field_that_stands_twice_is_refused(readers):
    """Otherwise only the last of two times would be checked and stored."""
    known, decoding = readers
    raw = _record([0.5] * 10, step=1, time=1.0)
    twice = bytes([raw[0] + 1]) + raw[1:6] + b"\x01" + raw[1:6] + b"\x02" + raw[7:]
    assert twice.count(b"\xa4step") == 2
    assert _read(known, twice)[0] is _read(decoding, twice)[0] is not None


def test_the_known_record_is_not_decoded(monkeypatch):
    """The layout is found, or this page would test nothing."""
    known = _new_reader()
    monkeypatch.setattr(wire, "decode_record", None)
    raw = _record([math.nan] * 10, step=2**40, time=7.0, seq=5)
    assert known.read(3, msgspec.Raw(raw)) == known.read(3, msgspec.Raw(raw))
    assert known.read(3, msgspec.Raw(raw)).names == tuple(NAMES)


def test_the_number_of_layouts_is_bounded():
    """Trainers that never send the same signals twice do not fill the memory."""
    layouts = Layouts()
    for count in range(8, 400):
        layouts.keep({f"s{place}": 0.0 for place in range(count)})
    assert len(layouts) <= 64
