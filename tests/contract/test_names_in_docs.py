"""Every dotted name of ours that the documentation, the examples and the deployment mention can be imported."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*", "deploy/**/*", "docker-compose.yml", "Makefile")
    for path in sorted(ROOT.glob(pattern))
    # A changelog and a decision keep the names of their day.
    if path.is_file() and path.name != "CHANGELOG.md" and "decisions" not in path.parts
]
PACKAGES = r"(?:trainer_hooks|monitor_server|dashboard)"
NAME = re.compile(rf"(?<![\w/.-]){PACKAGES}(?:\.[A-Za-z_]\w*)+")
IMPORT = re.compile(rf"from ({PACKAGES}[\w.]*) import ([\w, ]+)")
HOOKS = re.compile(r"RLVITALS_HOOKS[=\": ]+([a-z_,]+)")
FILE_ENDINGS = (".md", ".py", ".json", ".css", ".db")


def names_in(text):
    """List the dotted names of ours in a text; those that it imports with the module that they come from."""
    found = {name for name in NAME.findall(text) if not name.endswith(FILE_ENDINGS)}
    for module, imported in IMPORT.findall(text):
        found |= {f"{module}.{name.split(' as ')[0].strip()}" for name in imported.split(",") if name.strip()}
    for adapters in HOOKS.findall(text):
        found |= {f"trainer_hooks.callbacks.{adapter}" for adapter in adapters.split(",") if adapter}
    return found


def names_by_page():
    """Collect the names of every page, and of the entry points that pyproject.toml declares."""
    pages = {str(page.relative_to(ROOT)): names_in(page.read_text(encoding="utf-8")) for page in PAGES}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tables = [project["scripts"], *project["entry-points"].values()]
    return pages | {"pyproject.toml": {target for table in tables for target in table.values()}}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
def test_every_name_that_a_page_mentions_can_be_imported_alone(tmp_path):
    """A line that a user copies from a page works, whatever modules were imported before."""
    pages = names_by_page()
    names = sorted(set().union(*pages.values()))
    assert {"trainer_hooks.callbacks.trl.VitalsCallback", "trainer_hooks.callbacks.transformers"} <= {*names}
    wanted = tmp_path / "names.json"
    # Importing a name imports its module.
    wanted.write_text(json.dumps([name for name in names if not any(other.startswith(f"{name}.") for other in names)]))
    script = str(Path(__file__).with_name("resolve_names.py"))
    done = warm.run([script, str(wanted)], env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=240)
    assert done.returncode == 0, done.stdout
    failed = json.loads(done.stdout.splitlines()[-1])
    assert not {
        f"{page}: {name}": error for name, error in failed.items() for page, named in pages.items() if name in named
    }


def test_names_are_found_in_imports_commands_and_settings():
    """A page can name our code in three ways: by imports, by commands and by settings."""
    text = """
    from trainer_hooks.losses import lld_loss, llds_loss
    python -m trainer_hooks.callbacks.prime_rl outputs
    RLVITALS_HOOKS=openrlhf,verl and docs/dashboard.md and dashboard.md
    """
    assert names_in(text) == {
        "trainer_hooks.losses",
        "trainer_hooks.losses.lld_loss",
        "trainer_hooks.losses.llds_loss",
        "trainer_hooks.callbacks.prime_rl",
        "trainer_hooks.callbacks.openrlhf",
        "trainer_hooks.callbacks.verl",
    }


def test_every_test_file_that_a_page_names_is_there():
    """The pages name the tests that prove their claims, by the end of the path."""
    there = [path.as_posix() for path in ROOT.glob("tests/**/test_*.py")]
    named = {name for page in PAGES for name in re.findall(r"`((?:\w+/)*test_\w+\.py)", page.read_text("utf-8"))}
    assert len(named) > 50  # the table of docs/security.md alone names more
    assert not [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in there)]


@pytest.mark.parametrize("page", ["architecture.md", "reference-trainer.md"])
def test_every_module_that_a_page_about_the_code_names_is_there(page):
    """A page about the code names a module by its path, or by the end of its path."""
    there = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("[a-z]*/**/*.py")]
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", (ROOT / "docs" / page).read_text("utf-8")))
    assert len(named) > 10
    assert not [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in there)]
