"""Hostile or mistaken content of a batch is refused with words, at a cost in proportion to its size.

What no database gets to see is tested on one kind of them.
"""

import base64
import json
import math
import tracemalloc

import msgspec
import numpy as np
import pytest
import zstandard

from monitor_server.errors import BodyTooLarge, InvalidField
from monitor_server.settings import Settings
from trainer_hooks import wire

MEBIBYTE = 1024 * 1024
BATCH = {"schema_version": 1, "run": "limits"}


def moments(count, **fields):
    return {"step": 0, "summaries": {"x": {"type": "moments", "count": count, "sum": 1.0, "sum_squares": 1.0} | fields}}


def histogram(values):
    data = base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()
    counts = {"dtype": "float64", "shape": [len(values)], "data": data}
    return {
        "step": 0,
        "summaries": {"x": {"type": "histogram", "low": 0.0, "high": 1.0, "quantile": 0.5, "counts": counts}},
    }


@pytest.mark.parametrize("count", [-0.9999999999999999, -1, 0.5, 2**53 + 2, "NaN", "Infinity"])
def test_a_count_that_counts_nothing_is_refused(sqlite_collector, run_name, count):
    """Two ranks whose counts add up to zero would cause a division by zero in the deadlines of all runs."""
    two = {"run": run_name, "world_size": 2}
    sqlite_collector.send(**two, rank=0, records=[moments(1, statistic="ess_frac")])
    receipt = sqlite_collector.send(**two, rank=1, records=[moments(count, statistic="ess_frac")])
    (rejection,) = receipt["rejected"]
    assert rejection["error"] == "InvalidRecord"
    assert "count of 'x' must be a whole number" in rejection["detail"]


def test_a_negative_sum_of_squares_is_refused(sqlite_collector, run_name):
    """Two ranks with opposite infinite sums would merge to the root of a negative number, and stop the run."""
    receipt = sqlite_collector.send(
        run=run_name, records=[moments(1, statistic="std", sum="Infinity", sum_squares=-1.0)]
    )
    assert "sum_squares of 'x' must be at least 0 or NaN, got -1.0" in receipt["rejected"][0]["detail"]
    stored = wire.Moments(count=1, sum=math.inf, sum_squares=-1.0, statistic="std")
    assert math.isnan(stored.merge(msgspec.structs.replace(stored, sum=-math.inf)).value())


@pytest.mark.parametrize("values", [[1.0, -1.0], [0.5], [float("nan")], [float("inf")]])
def test_bins_hold_whole_counts(sqlite_collector, run_name, values):
    """A histogram's counts are held against the same rule."""
    receipt = sqlite_collector.send(run=run_name, records=[histogram(values)])
    assert "counts of 'x' must be whole numbers" in receipt["rejected"][0]["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("low", "NaN"),
        ("high", "Infinity"),
        ("low", -1e308),
        ("high", 0.0),
        ("high", -1.0),
        ("high", 1e308),
        ("quantile", "NaN"),
        ("quantile", -0.1),
        ("quantile", 1e308),
    ],
)
def test_bins_span_a_range_and_their_quantile_is_a_share(sqlite_collector, run_name, field, value):
    """Other bins allow no computation: NaN is in no range, and an overflow ends in a warning of numpy."""
    record = histogram([1.0, 2.0])
    record["summaries"]["x"] |= {"high": 1e308, field: value} if field == "low" else {field: value}
    receipt = sqlite_collector.send(run=run_name, records=[record])
    assert receipt["accepted"] == 0
    assert "'x' must" in receipt["rejected"][0]["detail"]


def test_a_sum_of_shares_never_divides_by_zero():
    """Merging is total: counts that cancel have no effective sample size."""
    one = wire.Moments(count=1, sum=1.0, sum_squares=1.0, statistic="ess_frac")
    assert one.merge(wire.Moments(count=-1, sum=0.0, sum_squares=0.0, statistic="ess_frac")).value() is None
    tiny = wire.Moments(count=1e-300, sum=1.0, sum_squares=1e-300, statistic="ess_frac")
    assert tiny.value() is None


DEEP = json.loads('{"a": ' + "[" * 200 + "]" * 200 + "}")


@pytest.mark.parametrize("media_type", [wire.JSON, wire.MSGPACK])
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"a": "x" * 200_000}, "config must have at most 131072 bytes, got 2000"),
        ({"a": [0] * 20_000}, "config must hold at most 10000 values, got 20002"),
        (DEEP, "config must be nested at most 32 deep"),
    ],
    ids=["long", "wide", "deep"],
)
def test_a_config_is_bounded_in_bytes_values_and_depth(sqlite_collector, run_name, media_type, config, says):
    """Each bound has its words, and the run is not there."""
    body = BATCH | {"run": run_name, "config": config}
    encoded = json.dumps(body).encode() if media_type == wire.JSON else msgspec.msgpack.encode(body)
    answer = sqlite_collector.post(encoded, media_type=media_type)
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert says in answer.json()["detail"]


def test_a_config_at_the_bounds_is_read_back(collector, run_name):
    """30 levels and 9,000 values come back as they were sent."""
    config = {"deep": json.loads("[" * 30 + "]" * 30), "wide": list(range(9_000)), "text": "ü" * 1_000}
    run_id = collector.run(run=run_name, config=config)
    assert collector.get(f"/runs/{run_id}")["config"] == config


@pytest.mark.parametrize(
    "fields",
    [b'"source": "\\ud800"', b'"config": {"a": "\\ud800"}', b'"config": {"\\udfff": 1}', b'"source": "a\\nb"'],
)
def test_text_that_is_no_unicode_is_refused(sqlite_collector, run_name, fields):
    """A lone surrogate cannot be stored or answered; it is refused with its field, and the run's page answers."""
    run_id = sqlite_collector.run(run=run_name)
    body = b'{"schema_version": 1, "run": "%b", %b}' % (run_name.encode(), fields)
    answer = sqlite_collector.post(body)
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert fields.split(b'"')[1].decode() in answer.json()["detail"]
    assert sqlite_collector.get(f"/runs/{run_id}")["name"] == run_name


@pytest.mark.parametrize("field", ["records", "config", "run", "colour"])
def test_deep_msgpack_is_a_located_error(sqlite_collector, field):
    """5,000 nested arrays in any field are refused as malformed, not as our failure."""
    nested = b"\x91" * 5_000 + b"\x90"
    body = b"\x82\xaeschema_version\x01" + bytes([0xA0 + len(field)]) + field.encode() + nested
    answer = sqlite_collector.post(body, media_type=wire.MSGPACK)
    assert answer.status in (400, 422), answer.data
    assert answer.json()["error"] in ("MalformedBody", "InvalidField")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"attempt": 2**53 - 1}, "attempt must lie in 0 to"),
        ({"attempt": 4_000_000_000_000}, "RLVITALS_ATTEMPT"),
        ({"world_size": 2**31 - 1}, "RLVITALS_MAX_WORLD_SIZE"),
        ({"world_size": 65_537, "rank": 7}, "at most 65536, got 65537"),
    ],
)
def test_an_implausible_attempt_or_world_size_is_refused(sqlite_collector, run_name, fields, says):
    """One stray message cannot end a run's detection; the message names the setting."""
    answer = sqlite_collector.post(json.dumps(BATCH | {"run": run_name} | fields).encode())
    assert (answer.status, answer.json()["error"]) == (422, "InvalidField")
    assert says in answer.json()["detail"]


def _peak_bytes(work):
    """Return the most memory that Python held while working."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _refuses(error, body, **options):
    from monitor_server.ingest.validation.validate import read_batch  # noqa: PLC0415 - so that the other tests run without it

    with pytest.raises(error):
        read_batch(body, media_type=wire.MSGPACK, settings=Settings(), **options)


def _packed(field, value):
    return b"\x83\xaeschema_version\x01\xa3run\xa1r" + bytes([0xA0 + len(field)]) + field.encode() + value


def test_a_small_body_does_not_become_a_large_one():
    """2 KB of zstd that stand for 100 MiB are refused before they are decompressed."""
    bomb = zstandard.compress(_packed("config", b"\x81\xa1a\xdd" + (100 * MEBIBYTE).to_bytes(4, "big")) + bytes(10**8))
    assert len(bomb) < 20_000
    assert _peak_bytes(lambda: _refuses(BodyTooLarge, bomb, encoding="zstd")) < 8 * MEBIBYTE


@pytest.mark.parametrize(
    ("field", "head"), [("records", b"\xdd"), ("config", b"\x81\xa1a\xdd")], ids=["records", "config"]
)
def test_values_are_counted_before_they_are_decoded(field, head):
    """4 Mi empty lists cost their 4 MiB, not 56 bytes each."""
    body = _packed(field, head + (4 * MEBIBYTE).to_bytes(4, "big") + b"\x90" * 4 * MEBIBYTE)
    assert _peak_bytes(lambda: _refuses(InvalidField, body, encoding="")) < 8 * MEBIBYTE


def test_a_json_body_is_bounded_in_values():
    """Two million empty lists are refused by their commas."""
    from monitor_server.ingest.validation.validate import read_batch  # noqa: PLC0415

    body = b'{"schema_version": 1, "run": "r", "config": {"a": [' + b"[]," * 2_000_000 + b"0]}}"

    def refuse():
        with pytest.raises(InvalidField, match="a JSON body must hold at most 1000000 values"):
            read_batch(body, media_type=wire.JSON, encoding="", settings=Settings())

    assert _peak_bytes(refuse) < MEBIBYTE


def test_a_record_of_a_million_signals_is_refused_alone(sqlite_collector, run_name):
    """It is refused by its count; its neighbour is stored."""
    scalars = b"\xdf" + (1_000_000).to_bytes(4, "big") + b"".join(b"\xa4%04x\x01" % (n % 65_536) for n in range(10**6))
    large = b"\x82\xa4step\x01\xa7scalars" + scalars
    good = msgspec.msgpack.encode({"step": 0, "scalars": {"a": 1.0}})
    name = run_name.encode()
    body = b"\x83\xaeschema_version\x01\xa3run" + bytes([0xA0 + len(name)]) + name + b"\xa7records\x92" + large + good
    receipt = wire.decode_receipt(sqlite_collector.post(body, media_type=wire.MSGPACK).data)
    assert (receipt.accepted, receipt.rejected[0].error) == (1, "TooManySignals")
    assert "at most 10000 signals, got 1000000" in receipt.rejected[0].detail


@pytest.mark.parametrize("field", ["responses", "scalars", "summaries", "actions"])
def test_a_field_that_stands_twice_is_refused_before_it_is_decoded(sqlite_collector, run_name, field):
    """The first of two was decoded whole although only the last was held against the limits."""
    empty = b"\x90" if field in ("responses", "actions") else b"\x80"
    many = b"\xdd" + (3_000_000).to_bytes(4, "big") + b"\xc0" * 3_000_000
    name = msgspec.msgpack.encode(field)
    record = b"\x83" + msgspec.msgpack.encode("step") + b"\x00" + name + many + name + empty
    body = msgspec.msgpack.encode(BATCH | {"run": run_name, "records": [msgspec.Raw(record)]})
    answer = sqlite_collector.post(body, media_type=wire.MSGPACK)
    assert answer.status == 200
    (rejection,) = msgspec.msgpack.decode(answer.data)["rejected"]
    assert "each of its fields once" in rejection["detail"]


LONG = "\N{GRINNING FACE}" + "a" * (16 * MEBIBYTE)  # four bytes a character as a Python string


@pytest.mark.parametrize("field", ["run", "project", "source", "capability", "end", "attempt", "rank", LONG])
def test_no_field_of_a_batch_is_decoded_before_it_is_measured(field):
    """An unknown field name is not decoded either: 16 MiB cost no more memory than their size."""
    from monitor_server.ingest.validation.validate import read_batch  # noqa: PLC0415

    body = msgspec.msgpack.encode(BATCH | {field: LONG if field is not LONG else 1})

    def refuse():
        with pytest.raises(InvalidField) as refused:
            read_batch(body, media_type=wire.MSGPACK, encoding="", settings=Settings())
        assert len(str(refused.value)) < 1000

    assert _peak_bytes(refuse) < 2 * MEBIBYTE


@pytest.mark.parametrize(
    "record",
    [
        {"data_version": LONG},
        {"time": LONG},
        {"scalars": {LONG: 1.0}},
        {"summaries": {LONG: {"type": "extreme", "extreme": 1.0}}},
        {"actions": [{"action": LONG, "alert_id": "a", "outcome": "taken", "reason": ""}]},
        {LONG: 1},
        {"responses": [{"kinds": [LONG]}]},
    ],
    ids=lambda record: next(iter(record))[:20],
)
def test_no_field_of_a_record_is_decoded_before_it_is_measured(record):
    """The record, or the response, is refused with few words; its neighbour stands."""
    from monitor_server.ingest.validation.validate import read_batch  # noqa: PLC0415

    body = msgspec.msgpack.encode(BATCH | {"records": [{"step": 0} | record, {"step": 1}]})
    found = []
    assert _peak_bytes(lambda: found.append(_read(read_batch, body))) < 2 * MEBIBYTE
    (valid,) = found
    assert valid.records[-1].step == 1
    assert all(len(rejection.detail) < 1000 for rejection in valid.rejected)
    assert len(valid.rejected) + sum(kept.refused_responses for kept in valid.records) == 1


def _read(read_batch, body):
    return read_batch(body, media_type=wire.MSGPACK, encoding="", settings=Settings())


@pytest.mark.parametrize("field", ["scalars", "summaries"])
def test_a_signal_that_stands_twice_is_refused(sqlite_collector, run_name, field):
    """Only the last of the two would be stored, and the other would be lost without an error."""
    value = 1.0 if field == "scalars" else {"type": "extreme", "extreme": 1.0}
    one = msgspec.msgpack.encode({"a": value})[1:]
    record = b"\x82\xa4step\x00" + msgspec.msgpack.encode(field) + b"\x82" + one + one
    answer = sqlite_collector.post(
        msgspec.msgpack.encode(BATCH | {"run": run_name, "records": [msgspec.Raw(record)]}), media_type=wire.MSGPACK
    )
    (rejection,) = msgspec.msgpack.decode(answer.data)["rejected"]
    assert rejection["detail"] == f"{field} must name each signal once"


@pytest.mark.parametrize("time", [8e306, 1.7e12 * 1000, -1.0])
def test_a_time_that_is_no_time_is_refused(sqlite_collector, run_name, time):
    """A time beyond the calendar would set deadlines that never pass, and cannot be shown as a date."""
    receipt = sqlite_collector.send(run=run_name, records=[{"step": 0, "time": time}])
    assert "time must lie in 0 to 253402300799 seconds since the epoch" in receipt["rejected"][0]["detail"]


def test_text_with_nul_is_refused_on_every_database(collector, run_name):
    """PostgreSQL cannot store it: an action's reason would have quarantined the run there."""
    action = {"action": "stop", "alert_id": "a", "outcome": "taken", "reason": "x\0y"}
    records = [{"step": 0, "actions": [action]}, {"step": 1, "data_version": "a\0"}, {"step": 2}]
    receipt = collector.send(run=run_name, records=records)
    assert [(each["index"], each["error"]) for each in receipt["rejected"]] == [(0, "InvalidRecord")] * 1 + [
        (1, "InvalidRecord")
    ]
    assert "reason and detail must not contain NUL" in receipt["rejected"][0]["detail"]
    assert "data_version" in receipt["rejected"][1]["detail"]


@pytest.mark.parametrize("now", [0.0, 1.0e9, 1.9e9])
def test_a_wrong_clock_refuses_no_trainer(now):
    """An attempt in ms of a trainer with a right clock is accepted for any clock of the collector."""
    from monitor_server.ingest.validation.validate import read_batch  # noqa: PLC0415

    body = json.dumps(BATCH | {"attempt": 1_795_000_000_000}).encode()  # November 2026
    assert read_batch(body, media_type=wire.JSON, encoding="", settings=Settings(), now=now).batch.attempt > 0


@pytest.mark.parametrize("request_id", ["\0", "", "x" * 10_000])
def test_a_request_id_that_is_no_id_is_refused_on_every_database(collector, run_name, request_id):
    """PostgreSQL cannot look NUL up: the answer to a request would have quarantined the run there."""
    action = {"action": "stop", "alert_id": "a", "outcome": "refused", "reason": "x", "request_id": request_id}
    receipt = collector.send(run=run_name, schema_version=3, records=[{"step": 0, "actions": [action]}, {"step": 1}])
    assert [each["index"] for each in receipt["rejected"]] == [0]
    assert "request_id must be the id of a request" in receipt["rejected"][0]["detail"]
