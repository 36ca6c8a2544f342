"""Ingest: what is stored, what is refused, and what is answered."""

import math

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
    binary = wire.Batch(schema_version=1, run=f"{run_name}-b", records=[wire.msgspec.Raw(wire.encode(record))])
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
