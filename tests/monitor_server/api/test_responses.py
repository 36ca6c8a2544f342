"""Sampled responses: stored, served, bounded; a bad one costs only itself."""

import json
import math
import uuid

import msgspec
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor_server.ingest.record_log import sampled_responses
from monitor_server.store.repositories.runs import Run
from monitor_server.store.tables import responses as table
from tests.live import eventually
from tests.sampled_responses import array, response
from trainer_hooks import wire


def send(live, run, step, *responses, **batch):
    return live.send(run=run, records=[{"step": step, "scalars": {"a": 1.0}, "responses": list(responses)}], **batch)


def test_a_response_comes_back_as_it_was_sent(collector, run_name):
    """Non-finite numbers are named, missing values are null, and tokens and places are lists."""
    run_id = send(
        collector,
        run_name,
        3,
        response(
            displacement="NaN",
            displacements=array([math.nan, -math.inf, 0.5], "float16"),
            mismatches=array([0.25, math.nan, math.inf], "float16"),
            advantages=array([0.5, -0.5, 0.5], "float16"),
            trained=False,
        ),
    )["run_id"]
    (item,) = collector.get(f"/runs/{run_id}/responses")["items"]
    assert (item["step"], item["attempt"], item["rank"], item["kinds"]) == (3, 1, 0, ["displaced"])
    assert item["actions"] == [[0, 2], [3, 4]]
    assert item["displacement"] == "NaN"
    assert item["displacements"] == ["NaN", "-Infinity", 0.5]
    assert (item["mismatches"], item["advantages"]) == ([0.25, "NaN", "Infinity"], [0.5, -0.5, 0.5])
    assert item["token_ids"] == [7, 8, 9, 7]
    assert (item["text"], item["pieces"], item["entropies"], item["trained"]) == (None, None, None, False)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_older_trainers_responses_have_no_mismatch(collector, run_name, version):
    """A measure that it cannot know is not observed, and not 0."""
    run_id = send(collector, run_name, 3, response(), schema_version=version)["run_id"]
    (item,) = collector.get(f"/runs/{run_id}/responses")["items"]
    assert (item["mismatches"], item["advantages"]) == (None, None)


def test_msgpack_stores_the_same_as_json(collector, run_name):
    """The record's own bytes are kept without its responses."""
    asked = msgspec.json.decode(json.dumps(response()), type=wire.Response)
    record = wire.Record(step=1, scalars={"a": 2.0}, responses=[msgspec.Raw(wire.encode(asked))])
    batch = wire.Batch(schema_version=2, run=run_name, records=[msgspec.Raw(wire.encode(record))])
    answer = collector.post(wire.encode(batch), media_type=wire.MSGPACK)
    run_id = wire.decode_receipt(answer.data).run_id
    (item,) = collector.get(f"/runs/{run_id}/responses")["items"]
    assert item["logprobs"] == [-0.5, -0.5, -0.5]
    with collector.app.state.collector.store.read() as repositories:
        (stored,) = repositories.records.some_bodies(run_id, 1, 1, limit=2)
    assert wire.decode_record(stored) == msgspec.structs.replace(record, responses=[])


def test_responses_are_asked_for_by_step_kind_and_correctness(collector, run_name):
    """They come in parts, the newest first."""
    for step in range(4):
        run_id = send(
            collector,
            run_name,
            step,
            response(kinds=["displaced", "random"]),
            response(kinds=["unlikely"], correct=False),
        )["run_id"]
    path = f"/runs/{run_id}/responses"
    ask = lambda **query: [(i["step"], i["kinds"][0]) for i in collector.get(path, **query)["items"]]  # noqa: E731
    assert ask(kind="random") == [(step, "displaced") for step in (3, 2, 1, 0)]
    assert ask(correct="false", from_step=1, to_step=2) == [(2, "unlikely"), (1, "unlikely")]
    first = collector.get(path, limit=5)
    rest = collector.get(path, limit=5, cursor=first["next"])
    assert [i["step"] for i in first["items"] + rest["items"]] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert rest["next"] is None


def test_an_unknown_run_and_an_unknown_kind_are_refused(collector, run_name):
    """The answers are 404 and 422, in the one error shape."""
    run_id = send(collector, run_name, 0)["run_id"]
    for path, status, error in (("nobody", 404, "UnknownRun"), (f"{run_id}/responses?kind=odd", 422, "InvalidField")):
        full = path if "/" in path else f"{path}/responses"
        answer = collector.pool.request("GET", f"{collector.url}/api/v1/runs/{full}")
        assert (answer.status, answer.json()["error"]) == (status, error)


@pytest.mark.parametrize(
    "bad",
    [
        {"colour": 1},
        {"kinds": ["odd"]},
        {"length": 1},
        {"logprobs": array([1.0], "float16")},
        {"actions": array([[3, 1]], "int32")},
        {"text": "x" * 300_000},
    ],
)
def test_a_bad_response_costs_only_itself(collector, run_name, bad):
    """Its step, and the good responses beside it, are kept; the receipt counts it."""
    receipt = send(collector, run_name, 0, response(), response(**bad), response(reward=0.25))
    assert (receipt["accepted"], receipt["refused_responses"]) == (1, 1)
    assert "rejected" not in receipt
    items = collector.get(f"/runs/{receipt['run_id']}/responses")["items"]
    assert [item["reward"] for item in items] == [0.25, 1.0]


def test_refused_responses_are_counted_and_logged_once_a_batch(collector, run_name, caplog):
    """A body of some kilobytes must not write megabytes of log."""
    records = [{"step": step, "responses": [5] * 20} for step in range(30)]
    assert collector.send(run=run_name, records=records)["refused_responses"] == 600
    assert sum("response was refused" in line for line in caplog.messages) == 1


def test_a_record_sent_twice_has_its_responses_once(collector, run_name):
    """The responses of a duplicate record are not stored again."""
    for _ in range(2):
        receipt = send(collector, run_name, 0, response())
    assert receipt["duplicates"] == 1
    assert len(collector.get(f"/runs/{receipt['run_id']}/responses")["items"]) == 1


def test_a_newer_attempt_replaces_the_responses_of_its_steps(collector, run_name):
    """As in every answer of the API, a repeated step has the responses of its newest attempt."""
    for attempt, reward in ((10, 0.1), (20, 0.2)):
        for step in (1, 2) if attempt == 10 else (2,):
            receipt = send(collector, run_name, step, response(reward=reward), attempt=attempt)
    items = collector.get(f"/runs/{receipt['run_id']}/responses")["items"]
    assert [(i["step"], i["attempt"], i["reward"]) for i in items] == [(2, 2, 0.2), (1, 1, 0.1)]


def test_a_step_holds_no_more_than_is_allowed(start_collector):
    """Over all ranks; what does not fit is counted."""
    live = start_collector(max_responses=3)
    assert "refused_responses" not in send(live, "r", 0, response(), response(), world_size=2)
    receipt = send(live, "r", 0, response(), response(), rank=1, world_size=2)
    assert receipt["refused_responses"] == 1
    assert len(live.get(f"/runs/{receipt['run_id']}/responses")["items"]) == 3


def test_old_steps_are_thinned_but_not_around_alerts(start_collector, scripted):
    """104 steps: the newest 16 whole, of the others at most 16, and those around the alert that opened at 50."""
    live = start_collector(engine=scripted, response_steps=16)
    records = [{"step": s, "scalars": {"warn": float(s == 50)}, "responses": [response()]} for s in range(104)]
    for end in range(1, 113, 8):  # a batch ends at each step at which the older ones are thinned
        run_id = live.run(run="r", records=records[max(0, end - 8) : end])
    items = live.get(f"/runs/{run_id}/responses", limit=200)["items"]
    steps = [item["step"] for item in items]
    around = set(range(50 - 16, 50 + 4 + 1))
    # Thinned last at step 96: of 16 × 6 = 96 steps one in 8 is 0, 8, ..., 80.
    assert set(steps) == set(range(81, 104)) | set(range(0, 81, 8)) | around


@pytest.mark.parametrize(("lengths", "whole"), [([5, 90, 91, 200], 16), ([1, 2, 3], 1), ([120], 16), ([32, 64], 32)])
def test_thinning_is_bounded_and_does_not_depend_on_when_it_is_done(store, lengths, whole):
    """Of any run at most twice the limit of whole steps is left, and the result equals one thinning at the end."""
    with store.write() as repositories:
        once = _left(repositories, "once", lengths[-1:], whole)
        assert _left(repositories, "often", lengths, whole) == once
        assert len(once) <= 2 * whole + 1


@pytest.mark.parametrize(("first", "distance"), [(0, 500), (7, 10), (499, 500)])
def test_thinning_keeps_responses_whatever_the_numbers_of_steps(store, first, distance):
    """A trainer may count samples, or sample each tenth step: the newest with responses stay, and some older ones."""
    with store.write() as repositories:
        sent = [first + distance * place for place in range(100)]
        kept = _left(repositories, "r", [sent[-1]], 16, distance=distance, first=first)
    assert kept[:16] == sent[: -16 - 1 : -1]
    assert 4 <= len(kept) - 16 <= 17
    assert kept[-1] == first


@pytest.fixture
def counting(database_url):
    """Return a function that counts the stored responses of a run, on one connection."""
    engine = sqlalchemy.create_engine(database_url, isolation_level="AUTOCOMMIT")
    count = sqlalchemy.select(sqlalchemy.func.count()).select_from(table)
    with engine.connect() as connection:
        yield lambda run_id: lambda: connection.execute(count.where(table.c.run_id == run_id)).scalar()
    engine.dispose()


def test_many_old_responses_are_thinned_a_few_at_a_time(start_collector, scripted, counting, monkeypatch):
    """240 responses that are old at once: each batch removes few more than it brings, until all is thinned."""
    monkeypatch.setattr(sampled_responses, "THINNED_AT_ONCE", 20)
    live = start_collector(engine=scripted, response_steps=16)
    # Later steps follow only at the end: nothing is thinned before.
    records = [{"step": step, "scalars": {"a": 1.0}, "responses": [response()]} for step in range(240)]
    run_id = live.run(run="r", world_size=2, records=records)
    count = counting(run_id)
    assert count() == 240
    ends = [{"step": step, "scalars": {"a": 1.0}} for step in range(240)]
    live.send(run="r", world_size=2, rank=1, records=ends)
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 239)
    left, removed = 240, []
    for step in range(240, 260):
        for rank in range(2):
            record = {"step": step, "scalars": {"a": 1.0}, "responses": [response()]}
            live.send(run="r", world_size=2, rank=rank, records=[record])
        kept = count()
        removed.append(left + 2 - kept)
        left = kept
    assert max(removed) <= 2 * (20 + 2)
    assert left <= 3 * 17 + 2 * 20


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_server_that_has_numbered_two_thousand_million_responses_goes_on(start_collector, database_url):
    """A fleet of a thousand runs sends as many in weeks; each later batch with a response was answered 500."""
    live = start_collector()
    engine = sqlalchemy.create_engine(database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("SELECT setval(pg_get_serial_sequence('responses', 'number'), 2147483646)")
    engine.dispose()
    run_id = send(live, "r", 3, *[response(reward=float(number)) for number in range(4)])["run_id"]
    first = live.get(f"/runs/{run_id}/responses", limit=2)
    rest = live.get(f"/runs/{run_id}/responses", limit=2, cursor=first["next"])
    assert [item["reward"] for item in first["items"] + rest["items"]] == [3.0, 2.0, 1.0, 0.0]


def _left(repositories, run_id, lengths, whole, *, distance=1, first=0):
    repositories.runs.add(
        Run(
            id=run_id,
            project="p",
            name=run_id,
            source="",
            capability="L1",
            world_size=1,
            attempt=1,
            started_at=0.0,
            last_seen=0.0,
            last_step_at=0.0,
            stall_seconds=1.0,
        )
    )
    held = msgspec.json.decode(json.dumps(response()), type=wire.Response)
    begun = first
    for newest in lengths:
        for step in range(begun, newest + 1, distance):
            repositories.responses.add(run_id, attempt=1, step=step, rank=0, new=[held], max_per_step=1)
        begun = newest + 1
        while repositories.responses.thin(run_id, newest_step=newest, whole_steps=whole, limit=50):
            pass
    return [stored.step for stored in repositories.responses.page(run_id, limit=10_000)]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner), max_leaves=12
)
changed = st.dictionaries(
    st.sampled_from([*response(), "group", "displacements", "mismatches", "text", "pieces"]), anything, max_size=2
)


@given(st.lists(anything | changed.map(lambda given_: response() | given_), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
def test_any_json_in_place_of_a_response_leaves_its_record_accepted(collector, responses):
    """The step is stored, and a response that cannot be read is counted."""
    name = f"fuzz-{uuid.uuid4().hex}"
    record = {"step": 0, "scalars": {"a": 1.0}, "responses": wire.spell_non_finite(responses)}
    receipt = collector.send(run=name, records=[record])
    assert receipt["accepted"] == 1
    items = collector.get(f"/runs/{receipt['run_id']}/responses", limit=200)["items"]
    assert len(items) + receipt.get("refused_responses", 0) == len(responses)
