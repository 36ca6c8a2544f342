"""Parquet files that were made to fill the memory of their reader."""

import numpy as np
import pytest

from monitor_server.importers.formats import parquet
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def rows_of(path):
    """Return the rows of the one run of a file."""
    (log,) = find_logs([path])
    return list(log.read(ReadReport()))


def test_a_list_of_millions_of_numbers_in_a_file_of_a_kilobyte_is_left_out(tmp_path):
    """The numbers beside it are read; as objects, its values would take gigabytes."""
    values = pa.array(np.zeros(5_000_000, np.int8))
    lists = pa.ListArray.from_arrays(pa.array([0, 5_000_000], pa.int32()), values)
    pq.write_table(pa.table({"step": [1], "reward": [0.5], "tokens": lists}), tmp_path / "x.parquet")
    assert rows_of(tmp_path / "x.parquet") == [{"step": 1, "reward": 0.5}]


def test_a_long_text_that_every_row_repeats_is_left_out(tmp_path):
    """The file has it once, and each row would have a copy; texts of numbers are read."""
    samples = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1024, np.int32)), pa.array(["a" * 1_000_000]))
    table = pa.table({"step": range(1024), "reward": ["0.5"] * 1024, "sample": samples})
    pq.write_table(table, tmp_path / "x.parquet")
    assert rows_of(tmp_path / "x.parquet")[-1] == {"step": 1023, "reward": "0.5"}


def test_texts_of_numbers_are_read_in_batches_that_fit_into_the_memory(tmp_path, monkeypatch):
    """Each text of the dictionary may be in all rows of a batch, so that a large one has batches of few rows."""
    monkeypatch.setattr(parquet, "BATCH_TEXT_BYTES", 100_000)
    rewards = [f"0.{step:06}" for step in range(3000)]
    pq.write_table(pa.table({"step": range(3000), "reward": rewards}), tmp_path / "x.parquet")
    assert [row["reward"] for row in rows_of(tmp_path / "x.parquet")] == rewards


def test_a_column_whose_name_begins_as_that_of_a_column_that_is_left_out_is_read_or_left_out(tmp_path):
    """The reader of Parquet takes a name as the beginning of longer names, up to a point."""
    lists = pa.ListArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), pa.array(np.zeros(1_000_000, np.int8)))
    table = pa.table({"step": [1], "reward": [0.5], "rew": lists, "loss": [0.1], "loss.x": lists})
    pq.write_table(table, tmp_path / "x.parquet")
    assert rows_of(tmp_path / "x.parquet") == [{"step": 1, "reward": 0.5}]


def test_a_file_that_decompresses_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    """Of the same number in millions of rows nearly nothing is stored."""
    monkeypatch.setattr("monitor_server.importers.source.BOMB_BYTES", 1 << 20)
    pq.write_table(pa.table({"reward": np.zeros(2_000_000)}), tmp_path / "x.parquet")
    with pytest.raises(LogError, match="250 times its size"):
        rows_of(tmp_path / "x.parquet")
