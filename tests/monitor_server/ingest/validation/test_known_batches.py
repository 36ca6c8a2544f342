"""A batch that is read as a whole is read as one whose records are read one by one, or is left to that."""

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


@pytest.fixture(scope="module", autouse=True)
def _known_names():
    """A valid record was read before."""
    read_any_batch(_encoded(_plain(1)), **FORM)
    assert len(known_layouts(SETTINGS))


@given(records=RECORDS, fields=FIELDS)
def test_a_known_batch_is_read_as_any_other(records, fields):
    """Whatever is in its fields and numbers: the same records, refusals and errors."""
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
    """Also one that is larger than a batch of a few steps, or refused."""
    assert read_known_batch(body, **FORM) is None


def test_nothing_is_known_before_a_valid_record():
    """A collector that has just started reads each record."""
    assert read_known(_encoded(_plain(1)), settings=SETTINGS, layouts=Layouts()) is None


@pytest.mark.parametrize("form", [{"media_type": wire.JSON}, {"encoding": "gzip"}])
def test_json_and_compressed_bodies_are_not_known(form):
    """They are rare, and have to be changed before they can be compared."""
    assert read_known_batch(_encoded(_plain(1)), **FORM | form) is None
