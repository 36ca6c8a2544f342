"""Runs that the real logging libraries wrote are read back with equal numbers, NaN and infinities among them."""

import json
import math
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import LogError, ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

WRITTEN = Path(__file__).parent / "written"
# The environment in which `make bench-overhead` installs the loggers.
LIBRARIES = Path(__file__).parents[3] / ".venv/overhead/bin/python"
PLACES = {
    "W&B run file": "wandb",
    "TensorBoard event file": "tensorboard",
    "TensorBoard event file, tensors": "tensors",
    "MLflow run folder": "mlflow-files",
    "MLflow database": "mlflow.db",
    "Trackio database": "trackio",
}
SINGLE = {"TensorBoard event file", "TensorBoard event file, tensors"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Unpack the files that the libraries wrote."""
    folder = tmp_path_factory.mktemp("written")
    with tarfile.open(WRITTEN / "runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_event_files_have_the_name_of_their_folder_however_that_is_given(written, monkeypatch):
    """Two runs that are named `..` would be one run of a collector."""
    monkeypatch.chdir(written / "tensors")
    assert [log.name for log in find_logs([Path(), Path("../tensorboard")])] == ["tensors", "tensorboard"]
    monkeypatch.chdir(written / "tensorboard")
    (written / "tensorboard/below").mkdir()
    monkeypatch.chdir("below")
    assert [log.name for log in find_logs([Path("..")])] == ["tensorboard"]


def read_back(path):
    """Return the one run in a place: its log, its steps with the trainer's own keys kept, and the report."""
    (log,) = find_logs([path])
    report = ReadReport()
    mapping = NameMapping(keep_unknown=True)
    return log, list(observe(log.read(report), mapping.signals)), report


def same(found, expected):
    """Compare numbers; NaN is equal to NaN."""
    return found == expected or (math.isnan(found) and math.isnan(expected))


def assert_equal_numbers(folder, form):
    """Compare a library's run with the rows that were given to it."""
    rows = json.loads((folder / "rows.json").read_text())
    log, steps, report = read_back(folder / PLACES[form])
    assert (report.problems, [step.step for step in steps]) == ([], [row["step"] for row in rows])
    assert log.format == form.partition(",")[0]
    names = {"reward": "reward/mean", "kl": "kl/ref", "grad_norm": "grad/norm", "actor/entropy": "entropy/mean"}
    for row, step in zip(rows, steps, strict=True):
        for key, value in row.items():
            if key != "step":
                wanted = struct.unpack("<f", struct.pack("<f", value))[0] if form in SINGLE else value
                assert same(step.signals[names.get(key, key)], wanted), (key, step)


@pytest.mark.parametrize("form", PLACES)
def test_what_a_library_wrote_is_read_back_with_equal_numbers(written, form):
    """Each library's file, found in its folder: names, steps, and every number to the bit that the format keeps."""
    assert_equal_numbers(written, form)


@pytest.mark.parametrize("form", ["W&B run file", "MLflow run folder", "MLflow database", "Trackio database"])
def test_a_run_keeps_the_name_that_it_has_in_its_library(written, form):
    """Names come from the store and not from the file."""
    assert read_back(written / PLACES[form])[0].name == "a run"


def test_times_are_read_where_the_library_keeps_them(written):
    """Event files keep a time for each step, from which a step's duration follows."""
    _, steps, _ = read_back(written / "tensorboard")
    assert [step.time for step in steps[:2]] == [1e9 + 1, 1e9 + 2]


@pytest.mark.slow
@pytest.mark.skipif(not LIBRARIES.exists(), reason="`make bench-overhead` installs the loggers")
def test_what_a_library_writes_today_is_read_back_with_equal_numbers(tmp_path):
    """The same with other numbers, written now by the libraries of requirements/overhead.txt."""
    script = [str(LIBRARIES), str(WRITTEN / "write.py"), str(tmp_path), "--seed", "1", "--steps", "120"]
    subprocess.run(script, check=True, env=os.environ | {"WANDB_SILENT": "true"}, stdout=sys.stderr, timeout=280)
    for form in PLACES:
        assert_equal_numbers(tmp_path, form)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_flipped_bit_costs_its_record_and_is_located(written, tmp_path, name):
    """A checksum that is wrong is reported with its place; every other number stands."""
    ending = {"tensorboard": "*tfevents*", "wandb": "*.wandb"}[name]
    (source,) = (written / name).rglob(ending)
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 0x10
    damaged = tmp_path / source.name
    damaged.write_bytes(content)
    _, steps, report = read_back(damaged)
    assert report.problem_count >= 1
    assert f"{source.name}, byte " in report.problems[0]
    before = {step.step: step.signals for step in read_back(source)[1]}
    assert len(steps) > len(before) // 3
    for step in steps:
        assert all(same(value, before[step.step][key]) for key, value in step.signals.items())


def cut_short(place, share, folder):
    """Return a file of a library, and a copy that has a share of its bytes."""
    found = [place] if place.is_file() else [path for path in place.rglob("*") if path.stat().st_size > 5000]
    # SQLite's shared memory stands beside a database that was read before.
    source = next(path for path in found if not path.name.endswith(("-shm", "-wal")))
    content, cut = source.read_bytes(), folder / source.name
    cut.write_bytes(content[: int(len(content) * share)])
    return source, cut


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_a_file_that_was_cut_short_gives_its_beginning(written, tmp_path, name, share):
    """A trainer that is killed leaves such files: every whole record is read, and no number that was not written."""
    source, cut = cut_short(written / name, share, tmp_path)
    before = {step.step: step.signals for step in read_back(source)[1]}
    _, steps, report = read_back(cut)
    assert "the file ends within a record" in report.problems[0]
    assert [step.step for step in steps] == list(before)[: len(steps)]
    assert len(steps) >= int(len(before) * share) - 1
    # Some records of the last step may be missing.
    assert all(step.signals.keys() == before[step.step].keys() for step in steps[:-1])
    for step in steps:
        assert all(same(value, before[step.step][key]) for key, value in step.signals.items())


@pytest.mark.parametrize("name", ["mlflow.db", "trackio"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
def test_a_database_that_was_cut_short_is_refused(written, tmp_path, name, share):
    """The error is that of SQLite in words, without a traceback."""
    _, cut = cut_short(written / name, share, tmp_path)
    with pytest.raises(LogError, match="an SQLite database that cannot be read"):
        read_back(cut)
