"""W&B's run files, written here record by record; those that W&B itself wrote are in test_written_by_libraries.py."""

import json
import struct
import zlib

from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe


def varint(value):
    """Return a number as Protocol Buffers write it."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number, content):
    """Return a field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def framed(content):
    """Return a record in its frame."""
    return struct.pack("<IHB", zlib.crc32(content, zlib.crc32(b"\x01")), len(content), 1) + content


def history(count, row):
    """Return a history record: the call of log() with this count."""
    items = [field(1, field(1, key.encode()) + field(16, json.dumps(value).encode())) for key, value in row.items()]
    return field(2, b"".join(items) + field(2, varint(1 << 3) + varint(count)))


def write_run(folder, rows, *, has_ended=False):
    """Write a run file with a row at each count, and return its path."""
    path = folder / "run-abc.wandb"
    records = [history(count, row) for count, row in rows.items()] + [field(18, b"")] * has_ended
    path.write_bytes(b":W&B\xe1\xbe\x00" + b"".join(map(framed, records)))
    return path


def read(path):
    """Return the steps of the one run in a place."""
    (log,) = find_logs([path])
    return [(step.step, step.signals) for step in observe(log.read(ReadReport()), NameMapping().signals)]


def test_a_trainers_step_that_never_moves_does_not_swallow_the_rows(tmp_path):
    """W&B adds the newest step to what a callback logs; before the first log of the trainer that is 0 in each row.

    The first steps of a run that has not ended must not be other ones when its step moves, because they were taken.
    """
    rows = {count: {"train/avg_reward": count / 10, "train/global_step": 0} for count in (2, 10, 18, 26)}
    expected = [(count, {"reward/mean": count / 10}) for count in rows]
    assert read(write_run(tmp_path, rows, has_ended=True)) == expected
    assert read(write_run(tmp_path, rows)) == [(0, expected[0][1])]
    rows[34] = {"train/loss": 0.1, "train/global_step": 10}
    assert [step for step, _ in read(write_run(tmp_path, rows))] == [0, 10]


def test_a_run_folder_whose_run_file_has_no_row_is_read_from_its_output(tmp_path):
    """A run that was killed early has no row in its run file, and was refused beside a whole output."""
    folder = tmp_path / "run-20260511_073152-abc"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "output.log").write_text("step:1 - critic/score/mean:0.5\nstep:2 - critic/score/mean:0.6\n")
    file = write_run(folder, {})
    printed = [(1, {"reward/mean": 0.5}), (2, {"reward/mean": 0.6})]
    assert read(folder) == printed
    write_run(folder, {1: {"reward": 0.5}})
    assert read(folder) == [(1, {"reward/mean": 0.5})]
    file.write_bytes(b"damaged")
    assert read(folder) == printed


def test_a_copy_of_wandbs_folder_without_run_files_holds_a_run_for_each_output_with_steps(tmp_path):
    """The configuration in W&B's own logs is no run, and the folders of the outputs give the names."""
    config = "config: {'actor': {'clip_ratio': 0.2, 'optim': {'lr': 1e-06}}, 'response_length': 8096}\n"
    outputs = {"run-20260511_073152-abc": "step:1 - critic/score/mean:0.5\n", "run-20260511_073152-abd": "Killed\n"}
    for name, output in outputs.items():
        for place, text in (("files/output.log", output), ("logs/debug.log", config)):
            (tmp_path / "wandb" / name / place).parent.mkdir(parents=True)
            (tmp_path / "wandb" / name / place).write_text(text)
    (tmp_path / "wandb" / "debug.log").write_text(config)
    assert [log.name for log in find_logs([tmp_path])] == ["run-20260511_073152-abc"]
    metrics = tmp_path / "wandb" / "run-20260511_073152-abc" / "files" / "metrics.jsonl"
    metrics.write_text('{"step": 1, "reward": 0.5}\n')
    assert [log.name for log in find_logs([tmp_path])] == ["metrics", "run-20260511_073152-abc"]
