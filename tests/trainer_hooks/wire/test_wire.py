import base64
import functools
import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_hooks.wire import (
    JSON,
    MSGPACK,
    READABLE_VERSIONS,
    SCHEMA_VERSION,
    ActionReport,
    ActionRequest,
    AlertNotice,
    Array,
    Batch,
    Extreme,
    Histogram,
    Moments,
    Record,
    Response,
    decode_batch,
    decode_receipt,
    decode_record,
    decode_response,
    encode,
    encode_json,
    merge,
    run_id,
)

TOKEN_FIELDS = ("displacements", "entropies", "mismatches", "advantages")
numbers = st.floats(allow_nan=True, allow_infinity=True)
names = st.text(min_size=1, max_size=20)
histograms = st.builds(
    lambda counts, quantile, scale: Histogram(
        low=-1.0, high=1.0, counts=Array.from_numpy(np.array(counts, dtype=np.int32)), quantile=quantile, scale=scale
    ),
    st.lists(st.integers(0, 1000), min_size=4, max_size=4),
    st.floats(0, 1),
    st.sampled_from(["linear", "exp"]),
)
summaries = st.one_of(
    st.builds(
        Moments,
        count=st.floats(0, 1e9),
        sum=numbers,
        sum_squares=numbers,
        statistic=st.sampled_from(["mean", "std", "variance", "ess_frac", "sum"]),
    ),
    st.builds(Extreme, extreme=numbers, statistic=st.sampled_from(["max", "min"])),
    histograms,
)
records = st.builds(
    Record,
    step=st.integers(0, 2**40),
    seq=st.none() | st.integers(0, 2**40),
    time=st.none() | st.floats(0, 1e10),
    policy_version=st.none() | st.integers(0, 2**40),
    data_version=st.none() | names,
    scalars=st.dictionaries(names, numbers),
    summaries=st.dictionaries(names, summaries),
)


def same(first, second):
    """Return whether two structs are equal, NaN being equal to itself."""
    return repr(first) == repr(second)


@given(st.lists(records, max_size=4))
def test_a_batch_survives_both_encodings(given_records):
    """Records are the same after msgpack and after JSON, non-finite numbers included."""
    plain = [msgspec.Raw(encode(record)) for record in given_records]
    batch = Batch(schema_version=SCHEMA_VERSION, run="r", records=plain)
    read = decode_batch(encode(batch), MSGPACK)
    assert all(
        same(decode_record(raw, MSGPACK), record) for raw, record in zip(read.records, given_records, strict=True)
    )
    spelled = [json.loads(encode_json(record)) for record in given_records]
    body = json.dumps({"schema_version": 1, "run": "r", "records": spelled}).encode()
    read = decode_batch(body, JSON)
    assert all(same(decode_record(raw, JSON), record) for raw, record in zip(read.records, given_records, strict=True))


@given(st.lists(st.tuples(*[st.floats(width=16)] * 5), min_size=1, max_size=6), st.sets(st.sampled_from(TOKEN_FIELDS)))
def test_a_response_survives_both_encodings(rows, fields):
    """Any numbers of its tokens, non-finite ones included, and any of the optional ones left out."""
    columns = np.array(rows, np.float16).T
    held = {
        name: Array.from_numpy(column)
        for name, column in zip(("logprobs", *TOKEN_FIELDS), columns, strict=True)
        if name in fields | {"logprobs"}
    }
    actions = Array.from_numpy(np.array([[0, len(rows)]], np.int32))
    whole = {"kinds": ["random"], "reward": 1.0, "correct": True, "length": len(rows), "logprob": -1.0}
    response = Response(**whole, actions=actions, **held)
    assert decode_response(encode(response), MSGPACK) == response
    assert decode_response(encode_json(response), JSON) == response
    assert all((name.encode() in encode(response)) == (name in fields) for name in TOKEN_FIELDS)


@given(summaries, summaries)
def test_merging_does_not_depend_on_the_order(first, second):
    """Counts, sums, extremes and bins are the same in either order."""
    if type(first) is type(second):
        statistic = {name: getattr(first, name) for name in ("statistic", "quantile", "scale") if hasattr(first, name)}
        second = msgspec.structs.replace(second, **statistic)
        assert same(first.merge(second), second.merge(first))


def test_moments_by_hand():
    """Values 1 and 2 on one rank and 6 on another: n 3, Σ 9, Σ² 41, mean 3, variance 41/3 − 9, ess 81/(3·41)."""
    held = {
        name: Moments(count=2, sum=3, sum_squares=5, statistic=name).merge(
            Moments(count=1, sum=6, sum_squares=36, statistic=name)
        )
        for name in ("mean", "variance", "std", "ess_frac", "sum")
    }
    values = {name: moments.value() for name, moments in held.items()}
    assert values["mean"] == 3
    assert values["sum"] == 9
    assert values["variance"] == pytest.approx(41 / 3 - 9)
    assert values["std"] == pytest.approx(math.sqrt(41 / 3 - 9))
    assert values["ess_frac"] == pytest.approx(81 / 123)


@pytest.mark.parametrize("statistic", ["std", "variance"])
def test_a_spread_whose_squares_have_no_number_is_not_said_to_be_none(statistic):
    """Rewards of 1e200 and -2e200 were shown with a standard deviation of 0, as if all were equal."""
    held = Moments(count=2, sum=-1e200, sum_squares=1e200 * 1e200, statistic=statistic)
    assert held.value() == math.inf
    assert math.isnan(msgspec.structs.replace(held, sum_squares=math.nan).value())


@pytest.mark.parametrize("reward", [0.1, 1 / 3, -0.05, 10000 / 3])
def test_equal_values_have_no_spread(reward):
    """Sums of equal rewards are rounded, and 63 of 0.1 left a standard deviation of 3e-9; a small one is kept."""
    each = np.full(63, reward)
    rank = Moments(count=63, sum=each.sum(), sum_squares=(each * each).sum(), statistic="std")
    assert functools.reduce(Moments.merge, [rank] * 8).value() == rank.value() == 0.0
    apart = np.array([reward, reward * (1 + 4e-6)])
    assert Moments(count=2, sum=apart.sum(), sum_squares=(apart * apart).sum(), statistic="std").value() > 0.0


def test_scalars_of_rank_0_count_and_summaries_take_precedence():
    """The last record's value of a scalar counts, and a summary of the same name replaces it."""
    records_of_ranks = [
        Record(step=1, scalars={"lr": 2.0, "x": 0.0}, summaries={"x": Moments(count=1, sum=1.0)}),
        Record(step=1, scalars={"lr": 1.0}, summaries={"x": Moments(count=1, sum=3.0)}),
    ]
    assert merge(records_of_ranks) == {"lr": 1.0, "x": 2.0}


def test_nothing_observed_is_absent():
    """A mean and a quantile of no observations are absent."""
    empty = Histogram(low=0, high=1, counts=Array.from_numpy(np.zeros(4, dtype=np.int32)), quantile=0.5)
    assert merge([Record(step=1, summaries={"a": Moments(count=0, sum=0.0), "b": empty})]) == {}


def test_an_extreme_with_nan_is_nan():
    """The maximum of values with NaN is NaN."""
    assert math.isnan(Extreme(extreme=math.nan).merge(Extreme(extreme=1.0)).value())


def test_json_by_hand():
    """JSON that a person may send with curl is read, with non-finite numbers and base64 bytes."""
    counts = base64.b64encode(np.array([1, 3], dtype="<i4").tobytes()).decode()
    body = {
        "schema_version": 1,
        "run": "r",
        "records": [
            {
                "step": 3,
                "scalars": {"loss/policy": "NaN", "grad/norm": "-Infinity"},
                "summaries": {
                    "reward/mean": {"type": "moments", "count": 2, "sum": 1},
                    "entropy/p95": {
                        "type": "histogram",
                        "low": 0,
                        "high": 2,
                        "quantile": 0.5,
                        "counts": {"dtype": "int32", "shape": [2], "data": counts},
                    },
                },
            }
        ],
    }
    (raw,) = decode_batch(json.dumps(body).encode(), JSON).records
    signals = merge([decode_record(raw, JSON)])
    assert math.isnan(signals["loss/policy"])
    assert signals["grad/norm"] == -math.inf
    assert signals["reward/mean"] == 0.5
    # Half of 4 is 2: one is in the first bin, the second is a third of the way through the three of [1, 2].
    assert signals["entropy/p95"] == pytest.approx(1 + 1 / 3)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"step": "three"}, r"\$.step"),
        ({}, "required field `step`"),
        ({"step": 1, "stpe": 2}, "unknown field `stpe`"),
        ({"step": 1, "scalars": {"x": None}}, r"\$.scalars"),
        ({"step": 1, "summaries": {"x": {"type": "median"}}}, "Invalid value 'median'"),
    ],
)
def test_a_bad_record_costs_only_itself(record, message):
    """The batch and the valid record are read, and the message locates the error in the other one."""
    body = json.dumps({"schema_version": 1, "run": "r", "records": [record, {"step": 2}]}).encode()
    bad, good = decode_batch(body, JSON).records
    with pytest.raises(msgspec.ValidationError, match=message):
        decode_record(bad, JSON)
    assert decode_record(good, JSON).step == 2


@pytest.mark.parametrize("size", [0, 7, 9])
def test_arrays_whose_bytes_do_not_fill_their_shape_are_refused(size):
    """An array of two float32 whose bytes are not eight is refused."""
    with pytest.raises(ValueError, match=f"data must hold 8 bytes .*, got {size} bytes"):
        Array(dtype="float32", shape=(2,), data=bytes(size)).to_numpy()


def test_a_receipt_may_say_more_than_this_version_knows():
    """Unknown fields of a newer collector are ignored, also in alerts, because a running trainer cannot be upgraded."""
    alert = {"id": "a", "kind": "k", "severity": "info", "opened_step": 1, "summary": "s", "runbook": "u"}
    answer = {"run_id": "r", "accepted": 1, "alerts": [alert], "server_time": 7.0}
    receipt = decode_receipt(msgspec.msgpack.encode(answer))
    assert (receipt.accepted, receipt.alerts[0].id) == (1, "a")


RECEIPTS = Path(__file__).parent / "golden"
ASKED = ActionRequest(
    id="q1",
    action="stop",
    by="anna",
    alert=AlertNotice(id="a1", kind="likelihood_drift", severity="critical", opened_step=7, summary="it falls"),
)


@pytest.mark.parametrize(
    ("file", "seconds_left"), [("receipt-without-seconds-left", None), ("receipt-with-seconds-left", 599.5)]
)
def test_receipts_with_a_request_are_read_as_they_were_written(file, seconds_left):
    """Earlier collectors do not state the seconds that are left of a request; newer ones do."""
    body = (RECEIPTS / f"{file}.msgpack").read_bytes()
    receipt = decode_receipt(body)
    assert receipt.requests == [msgspec.structs.replace(ASKED, seconds_left=seconds_left)]
    assert encode(receipt) == body


def test_a_runs_id_depends_on_project_and_name_alone():
    """Every rank and every restart computes the same id, and different names never give the same text."""
    assert run_id("p", "r") == run_id("p", "r")
    assert len({run_id("p", "r"), run_id("pr", ""), run_id("", "pr"), run_id("p", "s")}) == 4


def golden(version):
    """Return the recorded bytes of a batch, and the batch."""
    body = (Path(__file__).parent / f"golden/batch-v{version}.msgpack").read_bytes()
    return body, decode_batch(body)


@pytest.mark.parametrize("version", READABLE_VERSIONS)
def test_every_version_that_was_ever_sent_is_read_and_written_to_the_byte(version):
    """The files were written by the release that introduced each version; they are never written again."""
    body, batch = golden(version)
    assert batch.schema_version == version
    records = [decode_record(raw) for raw in batch.records]
    again = [
        msgspec.structs.replace(
            record, responses=[msgspec.Raw(encode(decode_response(raw))) for raw in record.responses]
        )
        for record in records
    ]
    batch = msgspec.structs.replace(batch, records=[msgspec.Raw(encode(record)) for record in again])
    assert encode(batch) == body


def test_the_bytes_of_the_first_version_are_read_as_written():
    """One of each kind of summary, non-finite numbers, and every field of the envelope."""
    _, batch = golden(1)
    envelope = (batch.run, batch.project, batch.attempt, batch.rank, batch.world_size, batch.capability, batch.end)
    assert envelope == ("golden", "p", 7, 1, 2, "L3", "stopped")
    record = decode_record(batch.records[0])
    assert (record.step, record.seq, record.time, record.policy_version, record.data_version) == (3, 1, 1.5, 2, "easy")
    signals = merge([record])
    assert math.isnan(signals["loss/policy"])
    # Bins of 1 and 3 over [0, 2]: half of 4 is a third of the way through the second.
    assert signals["entropy/p95"] == pytest.approx(1 + 1 / 3)
    assert (signals["lr"], signals["reward/mean"], signals["ratio/max"]) == (1e-6, 0.5, math.inf)


def test_the_bytes_of_the_fifth_version_are_read_as_written():
    """A response with the mismatch of three tokens, two of them not finite, and an advantage for each."""
    _, batch = golden(5)
    response = decode_response(decode_record(batch.records[0]).responses[0])
    held = response.mismatches.to_numpy().tolist()
    assert held[:2] == [0.25, -math.inf]
    assert math.isnan(held[2])
    assert response.advantages.to_numpy().tolist() == [0.5, -0.25, 0.5]
    assert (response.advantage, response.displacements, response.entropies) == (0.25, None, None)


def test_the_bytes_of_the_fourth_version_are_read_as_written():
    """Two forks, the second of which has diverged."""
    _, batch = golden(4)
    (report,) = decode_record(batch.records[0]).actions
    assert report.action == "fork"
    winner, lost = report.forks
    assert (winner.name, winner.is_winner, winner.reward_gain) == ("half-rate", True, (0.125, 0.25, 0.375))
    assert (lost.name, lost.has_diverged, math.isnan(lost.reward)) == ("kl", True, True)


def test_the_bytes_of_the_third_version_are_read_as_written():
    """Two answers to a request of a person."""
    _, batch = golden(3)
    actions = decode_record(batch.records[0]).actions
    assert [(each.outcome, each.request_id) for each in actions] == [("received", "q1"), ("taken", "q1")]


def test_the_bytes_of_the_second_version_are_read_as_written():
    """An action, and a response with every field; the third of its four tokens is feedback."""
    _, batch = golden(2)
    record = decode_record(batch.records[0])
    assert record.actions == [ActionReport(action="checkpoint", alert_id="a1", outcome="dry_run", reason="it falls")]
    response = decode_response(record.responses[0])
    assert response.kinds == ["displaced", "random"]
    assert response.actions.to_numpy().tolist() == [[0, 2], [3, 4]]
    assert response.token_ids.to_numpy().tolist() == [5, 6, 99, 7]
    assert response.logprobs.to_numpy().tolist() == [-0.5, -1.0, -math.inf]
    assert math.isnan(response.displacements.to_numpy()[2])
    assert response.entropies.to_numpy().tolist() == [0.5, 0.25, 0.0]
    assert (response.text, response.pieces) == ("so it is", ["so", " it", " tool", " is"])
    numbers = (response.reward, response.length, response.logprob, response.displacement, response.advantage)
    assert numbers == (1.0, 4, -2.5, -0.25, 0.5)
    assert (response.correct, response.trained, response.truncated, response.group) == (True, True, True, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.zeros((0, 2), np.int32)}, "shape"),
        ({"actions": np.array([[0, 2], [1, 4]], np.int32)}, "ascend"),
        ({"actions": np.array([[0, 0], [1, 4]], np.int32)}, "a token each"),
        ({"actions": np.array([[1, 2]], np.int32)}, "begin at 0"),
        ({"actions": np.array([[0.0, np.nan]])}, "integers"),
        ({"logprobs": np.zeros(2, np.float16)}, "one number an action token"),
        ({"entropies": np.zeros((3, 1), np.float16)}, "one number an action token"),
        ({"mismatches": np.zeros(4, np.float16)}, "mismatches must hold one number an action token"),
        ({"advantages": np.zeros(0, np.float16)}, "advantages must hold one number an action token"),
        ({"token_ids": np.zeros(3, np.int32)}, "token_ids must end"),
        ({"token_ids": np.zeros(4, np.float32)}, "integers"),
        ({"pieces": ["a"]}, "one text a token"),
        ({"length": 2}, "length must be at least the 3"),
    ],
)
def test_a_response_that_contradicts_itself_is_refused(change, message):
    """Each message has the rule."""
    _, batch = golden(2)
    response = decode_response(decode_record(batch.records[0]).responses[0])
    arrays = {name: Array.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in change.items()}
    with pytest.raises(ValueError, match=message):
        decode_response(encode(msgspec.structs.replace(response, **arrays)))
