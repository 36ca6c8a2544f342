"""Event files record by record: unusual records are read as a reader of single records reads them."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor_server.importers.formats.tensorboard import event_file as tensorboard
from monitor_server.importers.formats.tensorboard.crc32c import masked_crc32c
from monitor_server.importers.protocol import ReadReport


def varint(number):
    """Encode an unsigned number."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def sized(key, content):
    """Encode a field of bytes."""
    return bytes([key]) + varint(len(content)) + content


def simple(tag, number):
    """Encode a value as torch writes it: the tag, then the float."""
    return sized(0x0A, sized(0x0A, tag.encode()) + b"\x15" + struct.pack("<f", number))


def reversed_fields(tag, number):
    """Encode a value whose float stands before its tag, which Protocol Buffers allow."""
    return sized(0x0A, b"\x15" + struct.pack("<f", number) + sized(0x0A, tag.encode()))


def tensor(tag, number):
    """Encode a value as TensorFlow 2 writes it, as a tensor of one float."""
    content = b"\x08\x01" + sized(0x22, struct.pack("<f", number))
    return sized(0x0A, sized(0x0A, tag.encode()) + sized(0x42, content))


FORMS = {"simple": simple, "reversed": reversed_fields, "tensor": tensor}


def event(step, *values, time=None):
    """Encode an Event."""
    begin = b"" if time is None else b"\x09" + struct.pack("<d", time)
    return begin + b"\x10" + varint(step) + sized(0x2A, b"".join(values))


def record(content):
    """Frame an Event with its length and checksums."""
    length = struct.pack("<Q", len(content))
    sums = [int(masked_crc32c(np.frombuffer(part, np.uint8)[None, :])[0]) for part in (length, content)]
    return length + struct.pack("<I", sums[0]) + content + struct.pack("<I", sums[1])


def rows_of(path, records):
    """Write records and return the rows and the problems that are read back."""
    path.write_bytes(b"".join(map(record, records)))
    (log,) = tensorboard.EventFile().logs(path)
    report = ReadReport()
    return list(log.read(report)), report.problems


entries = st.lists(
    st.tuples(
        st.sampled_from(sorted(FORMS)),
        st.sampled_from(["reward", "train/loss", "a\x15bcde", "kl"]),
        st.floats(width=32, allow_nan=False),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(written=entries)
def test_every_form_of_a_scalar_gives_its_number_at_its_step(tmp_path_factory, written):
    """Simple values, floats before tags and tensors, mixed in one file; a tag may look like the end of a number."""
    step, expected, records = 0, {}, []
    for form, tag, number, ahead in written:
        step += ahead
        records.append(event(step, FORMS[form](tag, number), time=1e9 + step))
        expected.setdefault(step, {"step": step, "_timestamp": 1e9 + step}).setdefault(tag, number)
    rows, problems = rows_of(tmp_path_factory.mktemp("events") / "events", records)
    assert rows == [expected[step] for step in sorted(expected)]
    assert problems == []


def test_several_values_in_one_event_are_taken_in_their_order(tmp_path):
    """An Event with two values stands between simple ones, and of two values at one step the first stands."""
    records = [
        event(3, simple("reward", 0.5), time=1.0),
        event(4, simple("loss", 1.0), simple("reward", 0.25), time=2.0),
        event(4, simple("reward", 9.0), time=3.0),
    ]
    rows, _ = rows_of(tmp_path / "events", records)
    assert rows == [
        {"step": 3, "_timestamp": 1.0, "reward": 0.5},
        {"step": 4, "_timestamp": 2.0, "loss": 1.0, "reward": 0.25},
    ]


def test_a_record_that_is_no_event_costs_itself_and_is_named(tmp_path):
    """Bytes with a right checksum that are no message are reported with their place."""
    whole = event(1, simple("reward", 0.5), time=1.0)
    rows, problems = rows_of(tmp_path / "events", [whole, b"\x0f" * 30, event(2, simple("reward", 0.75), time=2.0)])
    assert [row["reward"] for row in rows] == [0.5, 0.75]
    assert problems == [f"events, byte {len(whole) + 16}: a record is no Event: wire type 7 is unknown"]


@pytest.mark.parametrize("form", [simple, tensor])
def test_a_rhythm_of_records_that_breaks_and_returns_is_read_to_the_last_number(tmp_path, form):
    """The reader guesses where records begin; a longer step, another tag and a histogram prove the guess wrong."""
    expected, records = {}, []
    for step in range(300):
        tags = [f"part/{'x' * (number % 7)}{number}" for number in range(20)]
        tags += ["eval"] if step % 80 == 79 else []
        for number, tag in enumerate(tags):
            records.append(event(step, form(tag, step + number), time=1.0))
            expected[step, tag] = step + number
        if step == 200:
            records.append(event(step, sized(0x0A, sized(0x0A, b"h") + sized(0x2A, bytes(5000)))))
    rows, problems = rows_of(tmp_path / "events", records)
    assert not problems
    found = {
        (row["step"], key): value for row in rows for key, value in row.items() if key not in ("step", "_timestamp")
    }
    assert found == expected


def steps_of_one_rhythm(tags, steps):
    """Return the records of steps that all log the same scalars, and the number of each (place, tag)."""
    records, numbers = [], {}
    for place, step in enumerate(steps):
        for tag in tags:
            numbers[place, tag] = float(place + len(tag))
            records.append(event(step, simple(tag, numbers[place, tag]), time=1e9 + place))
    return records, numbers


def test_damage_within_a_rhythm_costs_the_damaged_number_alone(tmp_path):
    """A flipped bit of a value, of a step and of a tag, far behind where the rhythm was learned, are each named."""
    tags = [f"part/{'x' * number}" for number in range(12)]
    records, numbers = steps_of_one_rhythm(tags, range(300, 550))
    content = bytearray(b"".join(map(record, records)))
    starts = np.cumsum([0, *(len(each) + 16 for each in records)])
    for place, tag, byte in ((220, 3, -6), (230, 0, 12 + 10), (240, 11, 12 + 20)):
        begin, end = starts[place * 12 + tag], starts[place * 12 + tag + 1]
        content[begin + byte if byte > 0 else end + byte] ^= 0x10
        del numbers[place, tags[tag]]
    (tmp_path / "events").write_bytes(content)
    (log,) = tensorboard.EventFile().logs(tmp_path / "events")
    report = ReadReport()
    found = {
        (row["step"] - 300, tag): value for row in log.read(report) for tag, value in row.items() if tag in set(tags)
    }
    assert found == numbers
    assert [problem.split(": ")[1] for problem in report.problems] == ["a record's checksum is wrong"] * 3


def test_a_rhythm_that_goes_back_begins_an_attempt_and_a_metric_named_twice_gives_its_first_number(tmp_path):
    """Steps that resume in the middle of a rhythm, with one tag standing twice in each step."""
    tags = [f"part/{'x' * number}" for number in range(12)]
    steps = [*range(300, 430), *range(400, 500)]
    records, _ = steps_of_one_rhythm(tags, steps)
    again = [event(step, simple(tags[0], -1.0), time=1.0) for step in steps]
    records = [each for place in range(len(steps)) for each in (*records[place * 12 : place * 12 + 12], again[place])]
    rows, problems = rows_of(tmp_path / "events", records)
    assert problems == []
    assert [row["step"] for row in rows] == steps
    assert [row[tags[0]] for row in rows] == [place + len(tags[0]) for place in range(len(steps))]
    assert [row["_timestamp"] for row in rows] == [1e9 + place for place in range(len(steps))]
