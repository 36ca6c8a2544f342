"""Ingest: the stored records and the answers; nothing is stored twice."""

import asyncio
import gzip
import json
import math
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
import zstandard

from monitor_server.errors import Unavailable
from monitor_server.ingest.large_batches import LargeBatches
from monitor_server.ingest.validation.decode import is_small
from tests.live import eventually
from trainer_hooks import wire


def test_a_batch_written_by_hand_is_stored_and_read_back(collector, run_name):
    """JSON as in the README arrives, and a later read gives the same numbers."""
    receipt = collector.send(run=run_name, records=[{"step": 0, "scalars": {"reward/mean": 0.25}}])
    assert receipt["accepted"] == 1
    (step,) = collector.get(f"/runs/{receipt['run_id']}/steps")["items"]
    assert step["signals"] == {"reward/mean": 0.25}


def test_the_receipt_comes_in_the_media_type_of_the_request(collector, run_name):
    """A msgpack batch is answered in msgpack, a JSON batch in JSON."""
    batch = wire.Batch(schema_version=1, run=run_name)
    binary = collector.post(wire.encode(batch), media_type=wire.MSGPACK)
    text = collector.post(wire.encode_json(batch), media_type=wire.JSON)
    assert binary.headers["content-type"] == wire.MSGPACK
    assert wire.decode_receipt(binary.data).run_id == text.json()["run_id"] == wire.run_id("default", run_name)


def test_numbers_survive_to_the_last_bit_in_both_encodings(collector, run_name):
    """NaN, infinities, -0.0 and the smallest float come back as they went in, by msgpack and by JSON."""
    values = {"nan": math.nan, "inf": math.inf, "ninf": -math.inf, "zero": -0.0, "tiny": 5e-324, "third": 1 / 3}
    record = wire.Record(step=3, scalars=values)
    binary = wire.Batch(schema_version=1, run=f"{run_name}-b", records=[msgspec.Raw(wire.encode(record))])
    text = wire.encode_json(wire.Batch(schema_version=1, run=f"{run_name}-t"))
    text = text[:-1] + b', "records": [' + wire.encode_json(record) + b"]}"
    for body, media_type in ((wire.encode(binary), wire.MSGPACK), (text, wire.JSON)):
        assert collector.post(body, media_type=media_type).status == 200
    for name in (f"{run_name}-b", f"{run_name}-t"):
        run_id = wire.run_id("default", name)
        (step,) = collector.get(f"/runs/{run_id}/steps")["items"]
        series = {item["signal"]: item["values"][0] for item in collector.get(f"/runs/{run_id}/series")["items"]}
        for found in (step["signals"], series):
            assert {key: float(value).hex() for key, value in found.items()} == {
                key: value.hex() for key, value in values.items()
            }


def test_compressed_bodies_are_stored_like_plain_ones(collector, run_name):
    """Zstd with and without a declared size, and gzip, all arrive."""
    streamed = zstandard.ZstdCompressor(write_content_size=False)
    for step, (encoding, compress) in enumerate(
        [("zstd", zstandard.compress), ("zstd", streamed.compress), ("gzip", gzip.compress)]
    ):
        body = {"schema_version": 1, "run": run_name, "records": [{"step": step, "scalars": {"a": step}}]}
        answer = collector.post(compress(json.dumps(body).encode()), encoding=encoding)
        assert answer.json()["accepted"] == 1
    run_id = wire.run_id("default", run_name)
    assert [item["step"] for item in collector.get(f"/runs/{run_id}/steps")["items"]] == [0, 1, 2]


def test_a_record_seen_before_is_counted_and_changes_nothing(collector, run_name):
    """A batch sent twice, or a record twice in one batch, is stored once."""
    batch = {"run": run_name, "records": [{"step": 0, "scalars": {"a": 1.0}}, {"step": 1, "scalars": {"a": 2.0}}]}
    assert collector.send(**batch)["accepted"] == 2
    again = collector.send(**batch)
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    record = {"step": 2, "seq": 7, "scalars": {"a": 3.0}}
    twice = collector.send(run=run_name, records=[record, record | {"scalars": {"a": 4.0}}])
    assert (twice["accepted"], twice["duplicates"]) == (1, 1)
    (series,) = collector.get(f"/runs/{again['run_id']}/series")["items"]
    assert series["values"] == [1.0, 2.0, 3.0]


def test_summaries_become_the_number_they_stand_for(collector, run_name):
    """Moments of 1, 2, 3, an extreme and a histogram give mean 2, max 9 and a median inside its bin."""
    counts = wire.Array.from_numpy(np.array([0, 4, 0, 0], dtype=np.int64))
    record = wire.Record(
        step=0,
        summaries={
            "mean": wire.Moments(count=3, sum=6.0),
            "max": wire.Extreme(extreme=9.0),
            "median": wire.Histogram(low=0.0, high=4.0, counts=counts, quantile=0.5),
        },
    )
    batch = wire.Batch(schema_version=1, run=run_name, records=[msgspec.Raw(wire.encode(record))])
    run_id = wire.decode_receipt(collector.post(wire.encode(batch), media_type=wire.MSGPACK).data).run_id
    (step,) = collector.get(f"/runs/{run_id}/steps")["items"]
    # All four values lie in [1, 2); half of them is half of the bin: 1 + 0.5.
    assert step["signals"] == {"mean": 2.0, "max": 9.0, "median": 1.5}


def test_a_run_keeps_its_config_and_lists_its_signals(collector, run_name):
    """Config is given back as JSON, non-finite numbers spelled; the signals seen are listed."""
    config = {"lr": 1e-6, "nested": {"clip": [0.2, "NaN"]}}
    run_id = collector.run(
        run=run_name, config=config, capability="L3", records=[{"step": 0, "scalars": {"b": 1, "a": 1}}]
    )
    run = collector.get(f"/runs/{run_id}")
    assert run["config"] == config
    assert run["signals"] == ["a", "b"]
    assert (run["capability"], run["status"], run["last_step"]) == ("L3", "running", 0)


def test_runs_are_listed_in_parts_that_do_not_overlap(start_collector):
    """Following `next` gives every run once, the newest first."""
    collector = start_collector()
    for number in range(5):
        collector.send(run=f"r{number}", project="odd" if number % 2 else "even")
    names, cursor = [], None
    while True:
        page = collector.get("/runs", limit=2, **({"cursor": cursor} if cursor else {}))
        names += [run["name"] for run in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == ["r4", "r3", "r2", "r1", "r0"]
    assert [run["name"] for run in collector.get("/runs", project="odd")["items"]] == ["r3", "r1"]
    assert collector.get("/runs", status="lost")["items"] == []


def test_a_large_batch_is_stored_in_parts_and_answered_once(collector, run_name):
    """Other batches are committed in between; counts, refusals, configuration and end are those of the whole batch."""
    records = [{"step": step, "scalars": {"a": step / 8}} for step in range(1_200)]
    records[700] = {"step": -1}
    large = {"run": run_name, "records": records, "config": {"lr": 0.1}, "end": "finished"}
    first, again = collector.send(**large), collector.send(**large)
    for receipt, counts in ((first, (1_199, 0)), (again, (0, 1_199))):
        assert (receipt["accepted"], receipt.get("duplicates", 0)) == counts
        assert [each["index"] for each in receipt["rejected"]] == [700]
    run = collector.get(f"/runs/{first['run_id']}")
    assert (run["status"], run["config"]) == ("finished", {"lr": 0.1})
    (series,) = collector.get(f"/runs/{first['run_id']}/series", max_points=2_000)["items"]
    assert series["steps"] == [step for step in range(1_200) if step != 700]


def test_a_large_batch_lets_others_be_committed_in_between(collector, run_name, monkeypatch):
    """No commit of one holds more than 500 of its records."""
    weights = []
    writer = collector.app.state.collector.writer
    submit = writer.submit

    def noting(run_id, work, **options):
        weights.append(options["weight"])
        return submit(run_id, work, **options)

    monkeypatch.setattr(writer, "submit", noting)
    collector.send(run=run_name, records=[{"step": step} for step in range(1_200)])
    assert weights == [501, 501, 201]


def test_no_commit_holds_many_bytes_of_one_batch(collector, run_name, monkeypatch):
    """Records of 250 signals, 3 KB each, are committed about 1 MiB at a time, and nothing is lost between two parts."""
    sizes = []
    writer = collector.app.state.collector.writer
    submit = writer.submit

    def noting(run_id, work, **options):
        sizes.append(options["size"])
        return submit(run_id, work, **options)

    monkeypatch.setattr(writer, "submit", noting)
    records = [{"step": step, "scalars": {f"{name:03}": 0.1 * name for name in range(250)}} for step in range(450)]
    body = msgspec.msgpack.encode({"schema_version": 2, "run": run_name, "records": records})
    receipt = wire.decode_receipt(
        collector.post(zstandard.compress(body), media_type=wire.MSGPACK, encoding="zstd").data
    )
    assert receipt.accepted == 450
    assert len(sizes) == 2
    assert max(sizes) <= 1024 * 1024


def test_small_bodies_of_many_records_wait_for_each_other_and_nobody_for_them(collector, run_name, monkeypatch):
    """While two such bodies are being stored, a third waits to be read, and a batch of one step is stored."""
    parts, held = collector.app.state.collector, []
    submit = parts.writer.submit

    def holding(run_id, work, **options):
        if options["weight"] < 100:
            return submit(run_id, work, **options)
        answer = Future()
        held.append(lambda: answer.set_result(submit(run_id, work, **options).result()))
        return answer

    monkeypatch.setattr(parts.writer, "submit", holding)
    packed = [
        zstandard.compress(
            msgspec.msgpack.encode(
                {"schema_version": 2, "run": f"{run_name}-{place}", "records": [{"step": step} for step in range(400)]}
            )
        )
        for place in range(3)
    ]
    with ThreadPoolExecutor(3) as others:
        answers = [others.submit(collector.post, body, media_type=wire.MSGPACK, encoding="zstd") for body in packed]
        eventually(lambda: parts.large_batches.waiting == 1 and len(held) == 2)
        assert collector.send(run=run_name, records=[{"step": 0}])["accepted"] == 1
        assert not any(answer.done() for answer in answers)
        for place in range(3):
            eventually(lambda place=place: len(held) > place)
            held[place]()
        assert [wire.decode_receipt(answer.result().data).accepted for answer in answers] == [400] * 3


def test_a_large_batch_that_waits_is_refused_at_a_stop():
    """Batches that are being stored are finished; waiting and new ones are answered and not cancelled."""

    async def stop():
        batches, may_go_on, ends = LargeBatches(1), asyncio.Event(), []

        async def store():
            try:
                async with batches:
                    await may_go_on.wait()
                    ends.append("stored")
            except Unavailable:
                ends.append("refused")

        first, *others = (asyncio.ensure_future(store()) for _ in range(4))
        while batches.waiting < 3:  # noqa: ASYNC110 - the awaited change sets no event
            await asyncio.sleep(0)
        batches.close()
        await asyncio.gather(*others, store())
        may_go_on.set()
        await first
        return ends

    assert asyncio.run(stop()) == ["refused"] * 4 + ["stored"]


@pytest.mark.parametrize("encoding", ["", "zstd", "gzip"])
def test_a_batch_is_small_by_its_bytes_and_records_after_decompression(encoding):
    """The size of the body does not matter; records in JSON are counted by its commas."""
    compress = {"": bytes, "zstd": zstandard.compress, "gzip": gzip.compress}[encoding]
    one, many = [{"step": 0, "scalars": {"a": 0.5}}], [{"step": step} for step in range(1_000)]
    long = [{"step": 0, "scalars": {f"{name:0190}": 0.5 for name in range(500)}}]
    for encode, media_type in ((msgspec.msgpack.encode, wire.MSGPACK), (msgspec.json.encode, wire.JSON)):
        found = [
            is_small(compress(encode({"run": "r", "records": records})), media_type=media_type, encoding=encoding)
            for records in (one, many * 3, long)
        ]
        assert found == [True, False, False]
