import ast
import shutil
import subprocess
import sys
from doctest import DocTestParser
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


def test_the_page_of_a_new_detector_has_the_sections_and_the_example_that_every_page_has(tmp_path):
    """The tests of all detectors read it as soon as the detector is registered."""
    write("detector", "brand_new", tmp_path)
    page = (tmp_path / "docs/detectors/brand_new.md").read_text()
    module = ast.parse((tmp_path / "monitor_server/detection/detectors/brand_new.py").read_text())
    (detector,) = [node for node in module.body if isinstance(node, ast.ClassDef)]
    finished = (ROOT / "docs/detectors/reward_fall.md").read_text()
    sections = [[line for line in text.splitlines() if line.startswith("## ")] for text in (page, finished)]
    assert sections[0] == sections[1]
    last = DocTestParser().get_examples(ast.get_docstring(detector))[-1]
    assert last.source.strip() in page
    assert last.want.strip() in page


def test_a_name_that_is_taken_or_of_another_form_writes_nothing(tmp_path):
    """An existing file is not overwritten."""
    (taken, *_) = write("adapter", "lion", tmp_path)
    (tmp_path / taken).write_text("mine")
    with pytest.raises(FileExistsError, match="lion"):
        write("adapter", "lion", tmp_path)
    assert (tmp_path / taken).read_text() == "mine"
    with pytest.raises(ValueError, match="Lion-King"):
        write("adapter", "Lion-King", tmp_path)
