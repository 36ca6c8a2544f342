"""Batches are encoded with the run, attempt and rank of their records, without threads and without HTTP."""

import pytest

from trainer_hooks.delivery import EncodedRecord
from trainer_hooks.recording.batches import BatchBuilder
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import Record, decode_batch, decode_record, encode

SETTINGS = ConnectionSettings(url="", project="p", run="r", attempt=7, rank=0, world_size=2)


def record(step=1, **fields):
    """Encode a record of attempt 7."""
    return EncodedRecord(7, encode(Record(step=step)), **fields)


def test_a_batch_names_the_run_and_holds_the_records():
    """Each batch has all settings that the collector needs."""
    body = BatchBuilder(SETTINGS, source="trl 1.16.0").encode([record(1), record(2)])
    batch = decode_batch(body)
    assert (batch.project, batch.run, batch.attempt, batch.rank, batch.world_size) == ("p", "r", 7, 0, 2)
    assert batch.source == "trl 1.16.0"
    assert [decode_record(raw).step for raw in batch.records] == [1, 2]


def test_only_the_first_batch_on_disk_has_the_configuration():
    """The first batch has the configuration, because another process may send it and so introduce the run."""
    batches = BatchBuilder(SETTINGS, config={"seed": 3})
    assert [decode_batch(batches.encode([record()])).config for _ in range(2)] == [{"seed": 3}, None]


@pytest.mark.parametrize(("rank", "config"), [(0, {}), (1, None)])
def test_rank_0_always_has_a_configuration_to_send(rank, config):
    """An empty configuration is sent too: it announces to the collector that the process has started."""
    settings = ConnectionSettings(url="", project="p", run="r", attempt=7, rank=rank, world_size=2)
    assert decode_batch(BatchBuilder(settings).encode_heartbeat(is_first=True)).config == config


def test_the_first_heartbeat_introduces_the_run():
    """The first heartbeat has the configuration and no records; the first batch on disk has the configuration too."""
    batches = BatchBuilder(SETTINGS, config={"seed": 3})
    first, second = (decode_batch(batches.encode_heartbeat(is_first=is_first)) for is_first in (True, False))
    assert (first.config, first.records, first.end) == ({"seed": 3}, [], None)
    assert second.config is None
    assert decode_batch(batches.encode([record()])).config == {"seed": 3}


def test_the_last_batch_tells_how_the_run_ended():
    """The last batch says how the run ended; heartbeats and earlier batches do not."""
    batches = BatchBuilder(SETTINGS)
    batches.end = "stopped"
    bodies = [batches.encode([record()]), batches.encode_heartbeat(is_first=False), batches.encode([], is_last=True)]
    assert [decode_batch(body).end for body in bodies] == [None, None, "stopped"]


def test_a_batch_has_the_lowest_version_that_reads_all_its_records():
    """A batch has version 1 if no record in it has actions or responses."""
    batches = BatchBuilder(SETTINGS)
    versions = [
        decode_batch(batches.encode(records)).schema_version
        for records in ([record()], [record(), record(schema_version=2)], [])
    ]
    assert versions == [1, 2, 1]


def test_the_capability_level_only_rises():
    """The level does not fall between the steps of a probe, which runs at every n-th step."""
    batches = BatchBuilder(SETTINGS)
    levels = [decode_batch(batches.encode([record(capability=level)])).capability for level in ("L1", "L3", "L4", "L2")]
    assert levels == ["L1", "L3", "L4", "L4"]
    assert decode_batch(batches.encode_heartbeat(is_first=False)).capability == "L4"


def test_a_heartbeat_has_the_attempt_of_the_newest_records():
    """After a rewind a heartbeat has the new attempt of the process."""
    batches = BatchBuilder(SETTINGS)
    batches.encode([EncodedRecord(8, encode(Record(step=1)))])
    assert decode_batch(batches.encode_heartbeat(is_first=False)).attempt == 8
