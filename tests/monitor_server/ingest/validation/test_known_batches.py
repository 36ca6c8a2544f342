"""A batch that is read as a whole gives the result of reading record by record, or is left to that path."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.errors import CollectorError
from monitor_server.ingest.validation.known_batches import read_known
from monitor_server.ingest.validation.layouts import Layouts
from monitor_server.ingest.validation.records import known_layouts
from monitor_server.ingest.validation.validate import read_any_batch, read_batch, read_known_batch
from monitor_server.settings import Settings
from trainer_hooks import wire

NAMES = [f"signal/{place}" for place in range(10)]
SETTINGS = Settings(dashboard="", max_records=20, max_name_chars=50)
FORM = {"media_type": wire.MSGPACK, "encoding": "", "settings": SETTINGS, "now": 1_800_000_000.0}

RECORDS = st.lists(
    st.builds(
        wire.Record,
        step=st.integers(-1, 2**54) | st.integers(0, 300),
        seq=st.none() | st.integers(-1, 2**54),
        time=st.none() | st.floats() | st.floats(0, 2e9),
        policy_version=st.none() | st.integers(-1, 2**20),
        data_version=st.sampled_from([None, None, None, "v"]),
        scalars=st.lists(st.floats(), min_size=10, max_size=10).map(
            lambda values: dict(zip(NAMES, values, strict=True))
        ),
    ),
    max_size=4,
)
FIELDS = st.fixed_dictionaries(
    {"schema_version": st.sampled_from([5, 5, 5, 1, 9]), "run": st.sampled_from(["r", "r", "a" * 51, "", " "])},
    optional={
        "project": st.text(max_size=60),
        "attempt": st.integers(-1, 2**60),
        "rank": st.integers(-1, 8),
        "world_size": st.integers(-1, 8),
        "capability": st.sampled_from(["L0", "L4"]),
        "source": st.text(max_size=60),
        "config": st.just({"a": 1}),
        "end": st.sampled_from(["finished", "stopped"]),
    },
)


def _encoded(records, **fields):
    raw = [msgspec.Raw(wire.encode(record)) for record in records]
    return wire.encode(wire.Batch(**{"schema_version": 5, "run": "r"} | fields, records=raw))


def _plain(count, **fields):
    record = {"time": 1.0, "scalars": dict.fromkeys(NAMES, 0.5)} | fields
    return [wire.Record(step=step, **record) for step in range(count)]


def _result(read, body):
    try:
        return read(body, **FORM)
    except CollectorError as error:
        return type(error), str(error)


@pytest.fixture(autouse=True)
def _known_names():
    """A valid record was read before."""
    read_any_batch(_encoded(_plain(1)), **FORM)
    assert len(known_layouts(SETTINGS))


@given(records=RECORDS, fields=FIELDS)
def test_a_known_batch_is_read_as_any_other(records, fields):
    """Any fields and numbers give the same records, refusals and errors."""
    body = _encoded(records, **fields)
    assert _result(read_batch, body) == _result(read_any_batch, body)


@given(
    place=st.integers(0, 10_000),
    bytes_=st.binary(min_size=1, max_size=3),
    cut=st.integers(0, 3),
    insertion=st.booleans(),
)
def test_a_batch_with_other_bytes_is_read_as_any_other(place, bytes_, cut, insertion):
    """Bytes that are changed, inserted or left out anywhere, in the batch or in one of its records."""
    body = _encoded(_plain(3), source="s")
    place %= len(body)
    body = body[:place] + bytes_ + body[place + (0 if insertion else len(bytes_)) + cut :]
    assert _result(read_batch, body) == _result(read_any_batch, body)


# Forms of a number, a text or a map that the wire does not choose, and values that it does not have.
FORMS = [
    b"\x05", b"\xcc\x05", b"\xcd\x00\x05", b"\xd0\x05", b"\xd3" + bytes(7) + b"\x05", b"\xe0", b"\xcf" + b"\xff" * 8,
    b"\xca\x3f\x00\x00\x00", b"\xcb\x80" + bytes(7), b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01", b"\xcb\xff" + b"\xf8" * 7,
    b"\xc0", b"\xc3", b"\xa1r", b"\xd9\x01r", b"\xc4\x01r", b"\xa1\xff", b"\xa3\xed\xa0\x80", b"\xa1\x00", b"\x80",
    b"\xde\x00\x00", b"\x90", b"\xd4\x01\x00", b"\xd6\xff" + bytes(4), b"\xc1",
]  # fmt: skip


@st.composite
def _odd_maps(draw, fields):
    """Encode a map with some values, keys or an order that differ from the encoding of the wire."""
    pairs = [(msgspec.msgpack.encode(name), value) for name, value in fields.items()]
    for change in draw(st.lists(st.sampled_from(["value", "value", "key", "twice", "first", "gone"]), max_size=2)):
        place = draw(st.integers(0, len(pairs) - 1))
        key, value = pairs.pop(place)
        odd = draw(st.sampled_from(FORMS))
        changed = {"value": [(key, odd)], "key": [(odd, value)], "twice": [(key, value)] * 2, "first": [(key, value)]}
        place = 0 if change == "first" else place
        pairs[place:place] = changed.get(change, [])
    heads = [bytes([0x80 | len(pairs)])] if len(pairs) < 16 else []
    head = draw(st.sampled_from([*heads, *heads, *heads, b"\xde" + len(pairs).to_bytes(2), b"\x8f"]))
    return head + b"".join(key + value for key, value in pairs)


@given(data=st.data())
def test_a_batch_that_is_encoded_otherwise_is_read_as_any_other(data):
    """Longer integers, short floats, NaN with a payload, bytes for text, keys twice or in another order, extensions."""
    read_any_batch(_encoded(_plain(1)), **FORM)  # an example before may have had the same names in another order
    scalars = data.draw(_odd_maps({name: msgspec.msgpack.encode(0.5) for name in NAMES}))
    whole = {name: msgspec.msgpack.encode(3) for name in ("step", "seq")}
    whole |= {"time": msgspec.msgpack.encode(1.0), "policy_version": msgspec.msgpack.encode(3), "scalars": scalars}
    records = [data.draw(_odd_maps(whole)) for _ in range(2)]
    fields = {
        name: msgspec.msgpack.encode(value) for name, value in {"schema_version": 5, "run": "r", "rank": 3}.items()
    }
    fields |= {"world_size": msgspec.msgpack.encode(8), "records": b"\x92" + b"".join(records)}
    body = data.draw(_odd_maps(fields)) + data.draw(st.sampled_from([b"", b"", b"", b"\xc0"]))
    assert _result(read_batch, body) == _result(read_any_batch, body)


def test_a_batch_of_known_names_is_read_as_a_whole():
    """Or the tests above would compare nothing."""
    valid = read_known_batch(_encoded(_plain(20), end="finished"), **FORM)
    assert [record.step for record in valid.records] == list(range(20))
    assert valid.records[0].names == tuple(NAMES)
    assert valid == read_any_batch(_encoded(_plain(20), end="finished"), **FORM)


@pytest.mark.parametrize(
    "body",
    [
        _encoded(_plain(1, scalars={"other": 0.5})),
        _encoded(_plain(1, data_version="v")),
        _encoded(_plain(1, time=float("nan"))),
        _encoded(_plain(1, seq=-1)),
        _encoded(_plain(21)),
        _encoded(_plain(1), config={"a": 1}),
        _encoded(_plain(1), source="s" * 51),
        _encoded(_plain(1), run="r" * (64 * 1024)),
        b"",
    ],
)
def test_any_other_batch_is_left_to_be_read_record_by_record(body):
    """A refused batch, and a batch that is larger than one of a few steps, are left too."""
    assert read_known_batch(body, **FORM) is None


def test_nothing_is_known_before_a_valid_record():
    """A collector that has just started reads each record."""
    assert read_known(_encoded(_plain(1)), settings=SETTINGS, layouts=Layouts()) is None


@pytest.mark.parametrize("form", [{"media_type": wire.JSON}, {"encoding": "gzip"}])
def test_json_and_compressed_bodies_are_not_known(form):
    """They are rare, and have to be changed before they can be compared."""
    assert read_known_batch(_encoded(_plain(1)), **FORM | form) is None
