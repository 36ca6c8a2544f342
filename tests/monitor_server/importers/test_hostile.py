"""Damaged, endless or malicious files lose one line or the whole file, in bounded memory and time."""

import gzip
import json
import os
import random
import struct
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from monitor_server.importers import source
from monitor_server.importers.formats.tensorboard.crc32c import masked_crc32c
from monitor_server.importers.formats.tensorboard.event_records import next_header
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

WRITTEN = Path(__file__).parent / "written/runs.tar.xz"
DEEP = 200_000


def read(path):
    """Read every run in a place and return the steps and the problems."""
    steps, problems = [], []
    for log in find_logs([path]):
        report = ReadReport()
        steps += observe(log.read(report), NameMapping().signals)
        problems += report.problems
    return steps, problems


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.json", "[" * DEEP),
        ("deep.json", '{"a":' * DEEP),
        ("trainer_state.json", '{"log_history": [{"step": 1, "x": ' + "[" * DEEP),
        ("deep.jsonl", '{"a":' * DEEP + "\n"),
        ("deep.ipynb", '{"cells": ' + "[" * DEEP),
    ],
)
def test_deep_nesting_is_refused_or_passed_over(tmp_path, name, content):
    """The parser's limit is an error of the log, and never of the program."""
    (tmp_path / name).write_text(content)
    try:
        steps, _ = read(tmp_path / name)
    except LogError as error:
        message = str(error)
    else:
        message = str(tmp_path / name)
        assert steps == []
    assert name in message


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("x.jsonl", "", "\n"), ("trainer_state.json", '{"log_history": [', "]}"), ("x.json", "[", "]")],
)
def test_an_integer_of_thousands_of_digits_is_infinite_and_costs_no_other_row(tmp_path, name, before, after):
    """Python does not convert 5,000 digits, and 400 are beyond the largest float; as signals both are infinite."""
    values = ["0.5", "1" * 5_000, "-" + "1" * 400, "0.25"]
    rows = [f'{{"step": {step}, "reward": {value}}}' for step, value in enumerate(values)]
    (tmp_path / name).write_text(before + ("\n" if name == "x.jsonl" else ",").join(rows) + after)
    steps, problems = read(tmp_path / name)
    assert [step.signals["reward/mean"] for step in steps] == [0.5, float("inf"), -float("inf"), 0.25]
    assert problems == []


def test_a_line_of_many_megabytes_costs_itself(tmp_path):
    """The line is reported with its number, and the lines before and after it are read."""
    line = b'{"step": 2, "reward": 0.5, "x": "' + b"a" * (17 << 20) + b'"}'
    (tmp_path / "x.jsonl").write_bytes(b'{"step": 1, "reward": 0.5}\n' + line + b'\n{"step": 3, "reward": 0.5}\n')
    steps, problems = read(tmp_path / "x.jsonl")
    assert [step.step for step in steps] == [1, 3]
    assert problems == ["x.jsonl, line 2: it is longer than 16 MiB"]


def test_a_file_that_decompresses_without_end_is_refused(tmp_path, monkeypatch):
    """Real logs are compressed 5 to 100 times; a large file that grows by more than 250 times is refused."""
    monkeypatch.setattr(source, "BOMB_BYTES", 40 << 20)
    (tmp_path / "x.log.gz").write_bytes(gzip.compress((b" " * 4095 + b"\n") * 4096) * 3)
    with pytest.raises(LogError, match="decompresses to more than 250 times its size"):
        read(tmp_path / "x.log.gz")


def test_pipes_and_links_in_a_folder_are_left_alone(tmp_path):
    """A pipe would wait for ever, and a link may lead in a circle; named, both are refused."""
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self.log").symlink_to(tmp_path / "self.log")
    (tmp_path / "run.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    assert [log.name for log in find_logs([tmp_path])] == ["run"]
    for name in ("pipe.log", "self.log"):
        with pytest.raises(LogError, match=name):
            find_logs([tmp_path / name])


@pytest.mark.parametrize("wrong", ["pipe", "endless"])
def test_the_files_beside_a_run_are_files(wrong, tmp_path):
    """A file beside a run that could be read for ever is skipped, and the run is read."""
    written = tmp_path / "written"
    written.mkdir()
    (written / "data.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    stored = tmp_path / "stored"
    for folder in (stored / "metrics", stored / "tags"):
        folder.mkdir(parents=True)
    (stored / "meta.yaml").write_text("")
    (stored / "metrics" / "reward").write_text("1 0.5 1\n")
    for path in (written / "meta.json", stored / "tags" / "mlflow.runName"):
        if wrong == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
    assert [log.name for log in find_logs([tmp_path])] == ["stored", "written"]
    assert len(read(tmp_path)[0]) == 2


def record(content, length=None):
    """Return a record of an event file, whose length may lie."""
    header = struct.pack("<Q", len(content) if length is None else length)
    checksums = [int(masked_crc32c(np.frombuffer(part, np.uint8)[None, :])[0]) for part in (header, content)]
    return header + struct.pack("<I", checksums[0]) + content + struct.pack("<I", checksums[1])


def scalar(step, value, tag=b"train/reward"):
    """Return an Event with one scalar."""
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    varint = bytearray()
    while step > 127:
        varint.append(step & 127 | 128)
        step >>= 7
    return b"\x09" + bytes(8) + b"\x10" + bytes([*varint, step]) + b"\x2a" + bytes([len(summary)]) + summary


def test_an_event_files_record_that_claims_gigabytes_is_stepped_over(tmp_path):
    """The checksum of its length is right and its content is missing: no memory is allocated for it."""
    (tmp_path / "events").write_bytes(record(scalar(1, 0.5)) + record(b"\x09" + bytes(8), length=(1 << 32) - 100))
    steps, problems = read(tmp_path / "events")
    assert [(step.step, step.signals) for step in steps] == [(1, {"reward/mean": 0.5})]
    assert "the file ends within a record" in problems[0]


def test_after_a_damaged_length_an_event_file_is_read_on(tmp_path):
    """The next record whose checksum is right is found."""
    records = [record(scalar(step, 0.5)) for step in range(1, 40)]
    records[10] = b"\xff" * 12 + records[10][12:]
    (tmp_path / "events").write_bytes(b"".join(records))
    steps, problems = read(tmp_path / "events")
    assert [step.step for step in steps] == [*range(1, 11), *range(12, 40)]
    assert "a record is damaged" in problems[0]


def test_the_search_after_a_damaged_place_of_an_event_file_ends_at_the_next_record():
    """Of a file with thousands of damaged places the rest is not looked at each time."""
    buffer = b"\xff" * 1000 + record(scalar(1, 0.5)) + b"\xff" * (1 << 20)
    next_header(buffer, 1)  # the tables of checksums stay
    tracemalloc.start()
    try:
        assert next_header(buffer, 1) == 1000
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()
    assert next_header(buffer, 1001) == len(buffer) - 11  # a header may begin in the last bytes


def test_steps_beyond_every_bound_do_not_end_the_reading(tmp_path):
    """Steps of 2⁶³ are numbered, and negative ones are left out."""
    steps = [0, 1 << 63, (1 << 64) - 1, (1 << 63) - 1]
    (tmp_path / "events").write_bytes(b"".join(record(scalar(step, 0.5)) for step in steps))
    assert [step.step for step in read(tmp_path / "events")[0]] == [0, 3]
    rows = [{"step": 10**400, "reward": 1}, {"step": 1e308, "reward": 10**400}, {"step": -5, "reward": "NaN"}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [step.step for step in read(tmp_path / "x.jsonl")[0]] == [0, 1]


@pytest.mark.parametrize("shown", ["<tr" * 300_000, "<tr><td>" * 200_000, "<tr><td>" + "<" * 500_000 + "</td></tr>"])
def test_a_notebooks_broken_table_takes_linear_time(tmp_path, shown):
    """Tags that never close are no rows."""
    cell = {"outputs": [{"data": {"text/html": f"<table>{shown}"}}]}
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(LogError, match="found none"):
        find_logs([tmp_path / "x.ipynb"])


@pytest.mark.parametrize(
    "unit",
    [
        "step aaaaaaaaa",
        "step: 1 | a ",
        "step {'a'b'",
        "step a=1_",
        "step \x1b[0;",
        "step = ",
        "/step:1 - ",
        "step=1 a=" + "1" * 59_000 + "x ",
    ],
)
def test_a_console_line_made_of_beginnings_takes_linear_time(tmp_path, unit):
    """No pattern is tried from every position to the end of the line."""
    (tmp_path / "x.log").write_text((unit * (60_000 // len(unit)) + "\n") * 20)
    assert read(tmp_path / "x.log")[0] == []


@pytest.mark.parametrize("seed", range(6))
def test_real_files_that_are_damaged_anywhere_are_read_or_refused(tmp_path, seed):
    """Bytes of files of the real libraries are flipped, removed, added and repeated: no other error occurs."""
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(tmp_path / "written", filter="data")
    draw = random.Random(seed)  # noqa: S311 - damage for a test
    files = [
        path for path in sorted((tmp_path / "written").rglob("*")) if path.is_file() and path.stat().st_size > 2000
    ]
    for number, path in enumerate(files):
        content = bytearray(path.read_bytes())
        for _ in range(draw.choice((1, 3, 50))):
            place = draw.randrange(len(content))
            kind = draw.randrange(4)
            if kind == 0:
                content[place] = draw.randrange(256)
            elif kind == 1:
                del content[place : place + draw.choice((1, 40, 2000))]
            elif kind == 2:
                content[place:place] = draw.randbytes(draw.choice((1, 40)))
            else:
                content[place:place] = content[: draw.choice((10, 3000))]
        damaged = tmp_path / f"{number}-{path.name}"
        damaged.write_bytes(content)
        try:
            read(damaged)
        except LogError as error:
            assert damaged.name in str(error)  # noqa: PT017 - most are read
