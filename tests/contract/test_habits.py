"""The promises of the developers' commands, hooks and folders."""

import ast
import io
import re
import subprocess
from pathlib import Path

import grimp
import pytest

from tools import durations
from tools.architecture import PACKAGES, page_with

ROOT = Path(__file__).parents[2]
MOST_MODULES = 8
# Imported inside functions: the arrays of a device when a tensor on one is met (decision 0006).
OPENED: dict[str, set[str]] = {"trainer_hooks.arrays.torch_backend": set()}
# Old names of parts of the delivery and of the store, which the terms of docs/glossary.md have replaced.
OLD_NAMES = re.compile(r"Courier|Shipper|Tally|Outbox(?!_full)|Correspondent|PersonsWord", re.IGNORECASE)
# Here "give" has its own meaning and does not stand for "return".
GIVING = {
    ("monitor_server/step_processing/steps/detection.py", "acknowledge"),
}


def test_an_environment_whose_creation_was_cut_short_is_completed(tmp_path):
    """Ctrl-C, and a Python of Debian without python3-venv, leave a folder with Python and without pip."""
    python, folder, asked = tmp_path / "python", tmp_path / "venv", tmp_path / "asked"
    python.write_text(f'#!/bin/sh\necho "$*" >> {asked}\n')
    python.chmod(0o700)
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(python)
    command = ["make", f"VENV={folder}", f"PYTHON={python}", "PIP=true", f"{folder}/.run"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert asked.read_text().splitlines()[-1] == f"-m venv {folder}"


@pytest.mark.parametrize(
    "folder",
    [folder for package in PACKAGES for folder in (ROOT / package, *sorted((ROOT / package).glob("[!_]*/")))],
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_no_top_level_folder_holds_more_than_eight_modules(folder):
    """A package and each folder directly in it; `__init__` and `__main__` do not count."""
    modules = [path for path in folder.glob("*.py") if path.stem not in {"__init__", "__main__"}]
    assert len(modules) <= MOST_MODULES, sorted(path.name for path in modules)


def test_no_modules_import_each_other_in_a_circle():
    """Modules without imports, or without importers, among the remaining ones are removed until no module is left."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules} | OPENED
    while imports:
        imported = set().union(*imports.values())
        free = {module for module, others in imports.items() if not others & imports.keys() or module not in imported}
        assert free, sorted(imports)
        imports = {module: others for module, others in imports.items() if module not in free}


def sources():
    """Return path and text of every module of the three packages."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def giving(text):
    """Return the names of the definitions whose docstring begins with "Give"."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return {getattr(node, "name", "") for node in nodes if (ast.get_docstring(node) or "").startswith("Give ")}


def test_no_docstring_begins_with_give():
    """A function returns, yields or computes something; the docstring names which of them."""
    found = {(path, name) for path, text in sources().items() for name in giving(text)}
    assert not found - GIVING


def test_docstrings_that_begin_with_give_are_found():
    """The docstrings are those of a module, a class, a function and a method; "Given" is another word."""
    text = 'def a():\n    """Give it."""\nclass B:\n    """Give it."""\ndef c():\n    """Given it."""\n'
    assert giving(text) == {"a", "B"}
    assert giving('"""Give all."""') == {""}


def test_old_names_do_not_come_back():
    """Neither code nor comments have them; `outbox_full`, the reason of a drop, is a name on the wire and stays."""
    found = {path: OLD_NAMES.findall(text) for path, text in sources().items()}
    assert not {path: names for path, names in found.items() if names}


def test_the_drawing_of_the_architecture_needs_its_place():
    """A page without the marks is an error, not a page that loses its drawing."""
    with pytest.raises(ValueError, match="must hold the lines"):
        page_with("a page without marks", "drawing")


def test_durations_are_added_up_file_by_file():
    """Setup and call of one file are one sum; other lines are none."""
    lines = ["1.50s call     tests/a.py::test_one[x]\n", "0.25s setup    tests/a.py::test_two\n", "2 passed in 3s\n"]
    assert durations.seconds_by_file(lines) == {"tests/a.py": 1.75}


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("= 2 passed in 3s =\n\n", 0),
        ("= 1 failed, 2 passed in 3s =\n", 1),
        ("pytest: error: unrecognized arguments: --x\n\n", 1),
        ("INTERNALERROR> x\n", 1),
        ("", 1),
    ],
)
def test_durations_succeed_only_if_tests_have_passed(output, status, monkeypatch, capsys):
    """`make test-durations` has the status of this end of its pipe."""
    monkeypatch.setattr("sys.stdin", io.StringIO(output))
    assert durations.main() == status
    assert capsys.readouterr().out.startswith(output)


def described_late(text):
    """Return the lines on which a function describes a type of ours to msgspec."""
    return [
        call.lineno
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if call.func.attr in {"decode", "Decoder"}
        for held in (*(call.args if call.func.attr == "Decoder" else ()), *_types(call))
        if isinstance(held, ast.Name | ast.Attribute)
    ]


def _types(call):
    return [word.value for word in call.keywords if word.arg == "type"]


def test_no_struct_is_described_to_msgspec_while_threads_run():
    """Its decoder is made where its module is imported: of two first decodings at once, one may crash the process."""
    late = {path: described_late(text) for path, text in sources().items()}
    assert not {path: lines for path, lines in late.items() if lines}


def test_a_struct_that_is_described_late_is_found():
    """Its decoder is made, or it is decoded, in a function; the decoder of a module is made when it is imported."""
    late = ["msgspec.json.Decoder(Held)", "msgspec.json.Decoder(type=held.Held)", "msgspec.json.decode(raw, type=Held)"]
    assert [described_late(f"def read(raw):\n    return {call}\n") for call in late] == [[2]] * 3
    assert described_late(f"HELD = {late[0]}\ndef read(raw):\n    return msgspec.json.decode(raw)\n") == []
