"""What the developers' commands, hooks and folders promise."""

import re
from pathlib import Path

import grimp
import pytest
import yaml

from tools.architecture import PACKAGES, page_with
from tools.durations import seconds_by_file

ROOT = Path(__file__).parents[2]
MOST_MODULES = 8
# One framework a file: their number is that of the frameworks.
UNBOUNDED = {"trainer_hooks/callbacks"}
# Imported inside functions: the arrays of a device when a tensor on one is met (decision 0006).
OPENED: dict[str, set[str]] = {"trainer_hooks.arrays.device": set()}


def recipe(target):
    """The commands of a make target."""
    body = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in body[1].splitlines()]


def test_the_hooks_before_a_commit_are_make_check():
    """The same commands in the same order."""
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == recipe("check")


@pytest.mark.parametrize(
    "folder",
    [folder for package in PACKAGES for folder in (ROOT / package, *sorted((ROOT / package).glob("*/")))],
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_no_top_level_folder_holds_more_than_eight_modules(folder):
    """A package and each folder directly in it; `__init__` and `__main__` do not count."""
    modules = [path for path in folder.glob("*.py") if path.stem not in {"__init__", "__main__"}]
    if str(folder.relative_to(ROOT)) not in UNBOUNDED:
        assert len(modules) <= MOST_MODULES, sorted(path.name for path in modules)


def test_no_modules_import_each_other_in_a_circle():
    """What imports nothing of the rest, or is imported by nothing of it, is taken away until nothing is left."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules} | OPENED
    while imports:
        imported = set().union(*imports.values())
        free = {module for module, others in imports.items() if not others & imports.keys() or module not in imported}
        assert free, sorted(imports)
        imports = {module: others for module, others in imports.items() if module not in free}


def test_the_drawing_of_the_architecture_needs_its_place():
    """A page without the marks is an error, not a page that loses its drawing."""
    with pytest.raises(ValueError, match="must hold the lines"):
        page_with("a page without marks", "drawing")


def test_durations_are_added_up_file_by_file():
    """Setup and call of one file are one sum; other lines are none."""
    lines = ["1.50s call     tests/a.py::test_one[x]\n", "0.25s setup    tests/a.py::test_two\n", "2 passed in 3s\n"]
    assert seconds_by_file(lines) == {"tests/a.py": 1.75}
