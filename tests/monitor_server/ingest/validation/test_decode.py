"""A batch written as the wire writes it is decoded at once; every other one is measured first and means the same."""

import msgspec
import pytest

from monitor_server.errors import CollectorError
from monitor_server.ingest.validation.decode import SMALL_BATCH_RECORDS, decode_batch
from monitor_server.settings import Settings
from trainer_hooks import wire

RECORDS = [{"step": step, "scalars": {"a": 0.5}} for step in range(3)]
PLAIN = {"schema_version": 1, "run": "r"}
RUN_TWICE = b"\x83\xaeschema_version\x01\xa3run\xa1q\xa3run\xa1r"


def _decode(body, **settings):
    return decode_batch(body, media_type=wire.MSGPACK, encoding="", settings=Settings(**settings))


@pytest.mark.parametrize(
    "fields",
    [
        PLAIN | {"records": RECORDS},
        PLAIN | {"project": "p", "attempt": 7, "rank": 1, "world_size": 2, "capability": "L3", "source": "s"},
        {"run": "r", "schema_version": 1, "records": RECORDS},  # not in the wire's order
        PLAIN | {"rank": 0, "records": RECORDS},  # a default that is written
        PLAIN | {"config": {"a": 1}},
        PLAIN | {"end": "finished", "records": RECORDS},
        PLAIN | {"records": RECORDS * SMALL_BATCH_RECORDS},
        PLAIN | {"records": [{"step": 0, "data_version": "v" * 100_000}]},
    ],
    ids=["plain", "all-fields", "other-order", "default", "config", "end", "many-records", "large"],
)
def test_a_batch_means_what_the_wire_says_however_it_is_written(fields):
    """`trainer_hooks.wire` decodes it without limits to the same."""
    body = msgspec.msgpack.encode(fields)
    assert _decode(body) == wire.decode_batch(body)


@pytest.mark.parametrize(
    ("body", "settings", "words"),
    [
        (RUN_TWICE, {}, "a batch must have each of its fields once, and no other field"),
        (msgspec.msgpack.encode(PLAIN | {"other": 1}), {}, "Object contains unknown field `other`"),
        (msgspec.msgpack.encode(PLAIN | {"rank": "a"}), {}, "Expected `int`, got `str`"),
        (msgspec.msgpack.encode(PLAIN | {"run": "r" * 90}), {"max_name_chars": 20}, "run must have at most 85 bytes"),
        (msgspec.msgpack.encode(PLAIN | {"records": RECORDS}), {"max_records": 2}, "at most 2 records, got 3"),
        (msgspec.msgpack.encode(PLAIN | {"records": RECORDS})[:-1], {}, "Input data was truncated"),
        (msgspec.msgpack.encode(PLAIN) + b"\x00", {}, "trailing"),
    ],
)
def test_a_batch_that_is_wrong_is_refused_with_the_words_of_what_is_wrong(body, settings, words):
    """The second decoding states every defect that the first one finds."""
    with pytest.raises(CollectorError, match=words):
        _decode(body, **settings)
