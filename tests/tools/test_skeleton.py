import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.skeleton import KINDS, write

ROOT = Path(__file__).parents[2]
COPIED = ("trainer_hooks", "monitor_server", "dashboard", "tests")


@pytest.fixture
def repository(tmp_path):
    """A copy of the packages and their tests, into which a skeleton may be written."""
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_skeleton_runs_and_passes_its_own_test_and_the_checks(repository):
    """A new part begins green: its test, its doctest and, once formatted, the linter."""
    files = [file for kind in KINDS for file in write(kind, f"brand_new_{kind}", repository)]
    modules = [str(file) for file in files if file.suffix == ".py"]
    tests = [str(file) for file in files if file.name.startswith("test_")]
    assert len(tests) == len(KINDS)
    detector = "monitor_server/detection/detectors/brand_new_detector.py"
    for command in (
        ("ruff", "format", "--no-cache", *modules),
        ("ruff", "check", "--no-cache", *modules),
        ("pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", *tests, detector),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=repository, capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_that_is_taken_or_of_another_form_writes_nothing(tmp_path):
    """An existing file is not overwritten."""
    (taken, *_) = write("adapter", "lion", tmp_path)
    (tmp_path / taken).write_text("mine")
    with pytest.raises(FileExistsError, match="lion"):
        write("adapter", "lion", tmp_path)
    assert (tmp_path / taken).read_text() == "mine"
    with pytest.raises(ValueError, match="Lion-King"):
        write("adapter", "Lion-King", tmp_path)
