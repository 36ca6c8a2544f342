"""Lines of a log file, read from its beginning and from the position of any of them."""

import bz2
import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.source import CHUNK_BYTES, chunks, lines, lines_from

# Some lines are longer than the pieces of 1 MiB in which a file is read, and than a hundred of a compressed one.
lengths = st.one_of(st.integers(0, 5), st.integers((1 << 20) - 3, (1 << 20) + 3))
endings = st.sampled_from([b"\n", b"\r\n", b"\n\n"])


@settings(max_examples=40)
@given(made=st.lists(st.tuples(lengths, endings), max_size=6), is_cut=st.booleans(), is_compressed=st.booleans())
def test_the_lines_from_any_of_them_on_are_the_rest_of_all(tmp_path_factory, made, is_cut, is_compressed):
    """They have the same numbers and the same content, also where the last line has no end."""
    content = b"".join(bytes([97 + place]) * length + ending for place, (length, ending) in enumerate(made))
    content = content.rstrip() if is_cut else content
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_bytes(gzip.compress(content, 0) if is_compressed else content)
    every = list(lines_from(path, ReadReport()))
    assert [line for _, line in every] == content.split()
    assert list(lines(path, ReadReport())) == [(place, line) for place, line in enumerate(content.split(), start=1)]
    for place, (position, _) in enumerate(every):
        assert content[position.offset :].startswith(every[place][1])
        assert list(lines_from(path, ReadReport(), position)) == every[place:]


def test_positions_count_a_line_that_is_too_long(tmp_path):
    """The line is skipped and named, and the position of the next line is its beginning."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"first\n" + b"x" * (40 << 20) + b"\nsecond\nthird")
    report = ReadReport()
    first, second, third = lines_from(path, report)
    assert report.problems == ["log.jsonl, line 2: it is longer than 16 MiB"]
    assert [each[0].line for each in (first, second, third)] == [0, 2, 3]
    assert list(lines_from(path, ReadReport(), second[0])) == [second, third]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_compressed_file_is_read_in_pieces_of_the_size_of_a_plain_one(tmp_path, is_cut):
    """A compressed file gives some KB at a time. The bytes before a cut are the last piece, and the cut is reported."""
    path, content = tmp_path / "log.jsonl.gz", bytes(range(1, 10)) * 400_000
    compressed = gzip.compress(content, 0)
    path.write_bytes(compressed[:-100_000] if is_cut else compressed)
    report = ReadReport()
    *pieces, last = chunks(path, report)
    assert len(pieces) == 3
    assert min(map(len, pieces)) >= CHUNK_BYTES > len(last)
    assert content.startswith(b"".join([*pieces, last]))
    assert bool(report.problems) == is_cut
    assert len(content) - 110_000 < report.bytes_read <= len(content)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress], ids=["gzip", "bz2"])
def test_what_is_compressed_is_read_up_to_bytes_that_are_not(tmp_path, compress):
    """A loop that was resumed may append text to the compressed log; a damaged block of bzip2 ends it likewise."""
    content = random.Random(0).randbytes(1_200_000)  # noqa: S311 - a block of bzip2 has 900 kB
    appended, damaged, report = tmp_path / "appended.log", tmp_path / "damaged.log", ReadReport()
    appended.write_bytes(compress(content) + b"step 3: reward 0.5\n")
    assert b"".join(chunks(appended, report)) == content
    if compress is bz2.compress:
        compressed = compress(content)
        damaged.write_bytes(compressed[: -len(compressed) // 10] + b"x" * (len(compressed) // 10))
        assert content.startswith(b"".join(chunks(damaged, report)))
        assert 800_000 < report.bytes_read - len(content) < 1_000_000
        return
    (problem,) = report.problems
    assert problem.startswith("appended.log, after 1200000 bytes: the compressed file ends")
    damaged.write_bytes(compress(content)[:-5] + b"x" * 5)
    with pytest.raises(LogError, match="CRC check failed"):  # which of the bytes are wrong is not known
        list(chunks(damaged, report))
