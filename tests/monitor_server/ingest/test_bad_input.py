"""Bad input: each gets a located error or its defined treatment, and nothing else in the batch is lost.

It is refused before it reaches a database, so that a collector on one kind of database is enough.
"""

import gzip
import json

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor_server.errors import CollectorError
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from tests.databases import sqlite_only
from trainer_hooks import wire

GOOD = {"schema_version": 1, "run": "bad-input", "records": [{"step": 0, "scalars": {"a": 1.0}}]}
BODY = json.dumps(GOOD).encode()
PACKED = zstandard.compress(BODY)
BOMB = zstandard.compress(bytes(129 * 1024 * 1024))  # more than max_decoded_bytes
NEWER = wire.SCHEMA_VERSION + 1
LONG_NUMBER = BODY[:-2] + b', {"step": 1, "scalars": {"b": %s}}]}' % (b"9" * 4_301)
GZIP_BOMB = gzip.compress(bytes(129 * 1024 * 1024), compresslevel=1, mtime=0)


def _with(**fields):
    return json.dumps(GOOD | fields).encode()


@pytest.mark.parametrize(
    ("body", "media_type", "encoding", "status", "error", "says"),
    [
        (b"", wire.JSON, None, 400, "MalformedBody", "JSON"),
        (BODY[:-5], wire.JSON, None, 400, "MalformedBody", "JSON"),
        (b"[" * 100_000, wire.JSON, None, 400, "MalformedBody", "JSON"),
        (LONG_NUMBER, wire.JSON, None, 400, "MalformedBody", "digits, got one of 4301 at $.records[1].scalars.b"),
        (LONG_NUMBER[:-1], wire.JSON, None, 400, "MalformedBody", "JSON is malformed"),
        (b"[1, 2]", wire.JSON, None, 422, "InvalidField", "object"),
        (msgspec.msgpack.encode(GOOD)[:-3], wire.MSGPACK, None, 400, "MalformedBody", "truncated"),
        (b"\xc1", wire.MSGPACK, None, 400, "MalformedBody", "msgpack"),
        (BODY, "text/plain", None, 415, "UnsupportedMediaType", "text/plain"),
        (BODY, "application/x-www-form-urlencoded", None, 415, "UnsupportedMediaType", "application/json"),
        (BODY, wire.JSON, "br", 415, "UnsupportedMediaType", "zstd"),
        (BODY, wire.JSON, "zstd", 400, "MalformedBody", "zstd"),
        (BODY, wire.JSON, "gzip", 400, "MalformedBody", "gzip"),
        (PACKED[:-4], wire.JSON, "zstd", 400, "MalformedBody", "zstd"),
        (PACKED + b"more", wire.JSON, "zstd", 400, "MalformedBody", "zstd"),
        (gzip.compress(BODY, mtime=0)[:-4], wire.JSON, "gzip", 400, "MalformedBody", "cut short"),
        (gzip.compress(BODY, mtime=0) * 2, wire.JSON, "gzip", 400, "MalformedBody", "followed by more"),
        (BOMB, wire.JSON, "zstd", 413, "BodyTooLarge", "decompress"),
        (GZIP_BOMB, wire.JSON, "gzip", 413, "BodyTooLarge", "decompress"),
        (_with(project="rlvitals", run="collector"), wire.JSON, None, 422, "InvalidField", "give the run another name"),
        (
            _with(schema_version=NEWER),
            wire.JSON,
            None,
            422,
            "SchemaVersionMismatch",
            f"must be 1 to {wire.SCHEMA_VERSION}, got {NEWER}; upgrade the coll",
        ),
        (
            _with(schema_version=0),
            wire.JSON,
            None,
            422,
            "SchemaVersionMismatch",
            f"must be 1 to {wire.SCHEMA_VERSION}, got 0; upgrade rlvitals",
        ),
        (_with(schema_version=NEWER, colour=1), wire.JSON, None, 422, "SchemaVersionMismatch", f"got {NEWER}"),
        (_with(colour="red"), wire.JSON, None, 422, "InvalidField", "colour"),
        (_with(run=None), wire.JSON, None, 422, "InvalidField", "$.run"),
        (_with(run=""), wire.JSON, None, 422, "InvalidField", "run must have"),
        (_with(run="a\nb"), wire.JSON, None, 422, "InvalidField", "printable"),
        (_with(project="p" * 201), wire.JSON, None, 422, "InvalidField", "project must have"),
        (_with(rank=2, world_size=2), wire.JSON, None, 422, "InvalidField", "rank must lie"),
        (_with(rank=-1), wire.JSON, None, 422, "InvalidField", "got -1"),
        (_with(world_size=0), wire.JSON, None, 422, "InvalidField", "world_size"),
        (_with(attempt=-1), wire.JSON, None, 422, "InvalidField", "attempt"),
        (_with(attempt=10**30), wire.JSON, None, 422, "InvalidField", "attempt"),
        (_with(capability="L9"), wire.JSON, None, 422, "InvalidField", "capability"),
        (_with(end="crashed"), wire.JSON, None, 422, "InvalidField", "end"),
        (_with(records={"step": 0}), wire.JSON, None, 422, "InvalidField", "records"),
        (_with(records=[{}] * 10_001), wire.JSON, None, 422, "InvalidField", "10001"),
        (
            msgspec.msgpack.encode(GOOD | {"config": {"a": b"bytes"}}),
            wire.MSGPACK,
            None,
            422,
            "InvalidField",
            "config",
        ),
    ],
    ids=lambda value: f"{len(value)}-bytes" if isinstance(value, bytes) else None,
)
def test_a_batch_that_is_wrong_as_a_whole_is_refused(  # noqa: PLR0917 - columns of the table above
    sqlite_collector, body, media_type, encoding, status, error, says
):
    """Each case has its status, its error class and a message that says where."""
    answer = sqlite_collector.post(body, media_type=media_type, encoding=encoding)
    problem = answer.json()
    assert (answer.status, problem["error"]) == (status, error)
    assert says in problem["detail"]
    assert set(problem) == {"error", "detail"}


@pytest.mark.parametrize(
    ("record", "error", "says"),
    [
        ({"scalars": {"a": 1.0}}, "InvalidRecord", "step"),
        ({"step": "first", "scalars": {}}, "InvalidRecord", "$.step"),
        ({"step": -1}, "InvalidRecord", "step must lie"),
        ({"step": 2**53 + 2}, "InvalidRecord", "step must lie"),
        ({"step": 10**40}, "InvalidRecord", "step must lie"),
        ({"step": 9, "seq": -3}, "InvalidRecord", "seq must lie"),
        ({"step": 9, "policy_version": -3}, "InvalidRecord", "policy_version"),
        ({"step": 9, "time": "NaN"}, "InvalidRecord", "time"),
        ({"step": 9, "colour": 1}, "InvalidRecord", "colour"),
        ({"step": 9, "scalars": {"a": "high"}}, "InvalidRecord", "$.scalars"),
        ({"step": 9, "scalars": {"a": None}}, "InvalidRecord", "$.scalars"),
        ({"step": 9, "scalars": {"": 1.0}}, "InvalidRecord", "name"),
        ({"step": 9, "scalars": {"a\x00b": 1.0}}, "InvalidRecord", "name"),
        ({"step": 9, "scalars": {"\ud800": 1.0}}, "InvalidRecord", ""),
        ({"step": 9, "scalars": {"n" * 201: 1.0}}, "InvalidRecord", "200"),
        ({"step": 9, "scalars": {f"s{i}": 1.0 for i in range(10_001)}}, "TooManySignals", "10000"),
        ({"step": 9, "data_version": "v" * 201}, "InvalidRecord", "data_version"),
        (
            {"step": 9, "scalars": {"a": 1}, "summaries": {"a": {"type": "extreme", "extreme": 1}}},
            "InvalidRecord",
            "both for 'a'",
        ),
        ({"step": 9, "summaries": {"a": {"type": "magic"}}}, "InvalidRecord", "magic"),
        (
            {
                "step": 9,
                "summaries": {
                    "a": {
                        "type": "histogram",
                        "low": 0,
                        "high": 1,
                        "quantile": 0.5,
                        "counts": {"dtype": "int64", "shape": [2], "data": "AAAA"},
                    }
                },
            },
            "InvalidRecord",
            "16 bytes",
        ),
        ([1, 2], "InvalidRecord", "object"),
        (None, "InvalidRecord", "object"),
    ],
)
def test_a_bad_record_is_refused_alone(sqlite_collector, run_name, record, error, says):
    """Its neighbours are stored; the rejection has its position, its class and the defect."""
    neighbours = [{"step": 0, "scalars": {"a": 1.0}}, {"step": 1, "scalars": {"a": 2.0}}]
    receipt = sqlite_collector.send(run=run_name, records=[neighbours[0], record, neighbours[1]])
    (rejection,) = receipt["rejected"]
    assert (rejection["index"], rejection["error"]) == (1, error)
    assert says in rejection["detail"]
    steps = sqlite_collector.get(f"/runs/{receipt['run_id']}/steps")["items"]
    assert [step["signals"] for step in steps] == [{"a": 1.0}, {"a": 2.0}]


@sqlite_only
def test_a_body_over_the_limit_is_refused_before_it_is_read(start_collector):
    """One byte above the limit is 413; a body of exactly the limit is read."""
    collector = start_collector(max_body_bytes=len(BODY))
    assert collector.post(BODY).status == 200
    answer = collector.post(BODY + b" ")
    assert (answer.status, answer.json()["error"]) == (413, "BodyTooLarge")
    chunked = collector.pool.request(
        "POST",
        f"{collector.url}/api/v1/ingest",
        body=iter([BODY, b" "]),
        headers={"Content-Type": wire.JSON},
        chunked=True,
    )
    assert chunked.status == 413


DEFAULTS = Settings()  # reading the environment for each of hundreds of examples would take longer than they do


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=200), encoding=st.sampled_from(["", "zstd", "gzip"]))
def test_no_bytes_make_anything_but_a_located_error(body, encoding):
    """Any bytes give either a batch or an error with a 4xx status."""
    for media_type in (wire.JSON, wire.MSGPACK):
        status = 200
        try:
            read_batch(body, media_type=media_type, encoding=encoding, settings=DEFAULTS)
        except CollectorError as error:
            status = error.status
        assert 200 <= status < 500


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NUMBER = st.floats() | st.integers(0, 2**64 - 1) | ANYTHING
SUMMARY = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("moments"), "count": NUMBER, "sum": NUMBER, "sum_squares": NUMBER},
        optional={"statistic": st.sampled_from(["mean", "std", "variance", "ess_frac", "sum"])},
    ),
    st.fixed_dictionaries({"type": st.just("extreme"), "extreme": NUMBER}),
    st.fixed_dictionaries(
        {
            "type": st.just("histogram"),
            "low": st.floats(),
            "high": st.floats(),
            "quantile": st.floats(),
            "scale": st.sampled_from(["linear", "exp"]),
            "counts": st.fixed_dictionaries(
                {
                    "dtype": st.sampled_from(["int64", "float64", "uint8", "bool"]),
                    "shape": st.lists(st.integers(-1, 3), max_size=2),
                    "data": st.sampled_from([bytes(n) for n in (0, 1, 2, 3, 8, 16, 24)]) | st.binary(max_size=24),
                }
            ),
        }
    ),
    ANYTHING,
)


@settings(max_examples=300, deadline=None)
@given(
    record=st.fixed_dictionaries(
        {"step": st.integers(0, 5) | ANYTHING},
        optional={
            "seq": ANYTHING,
            "time": NUMBER,
            "scalars": st.dictionaries(st.text(max_size=5), NUMBER, max_size=3) | ANYTHING,
            "summaries": st.dictionaries(st.text(max_size=5), SUMMARY, max_size=3),
        },
    )
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # arithmetic on infinities
def test_no_record_costs_its_neighbour(record):
    """For any record the neighbour is accepted, and the record is accepted or refused with a reason."""
    batch = {"schema_version": 1, "run": "r", "records": [record, {"step": 7, "scalars": {"a": 1.0}}]}
    valid = read_batch(msgspec.msgpack.encode(batch), media_type=wire.MSGPACK, encoding="", settings=DEFAULTS)
    assert [record.index for record in valid.records][-1] == 1
    assert len(valid.records) + len(valid.rejected) == 2
    assert all(rejection.detail for rejection in valid.rejected)
