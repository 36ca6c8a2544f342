"""Each name of the glossary exists once in the code, where the glossary states; names that were replaced are gone."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from tools.architecture import PACKAGES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [[cell.strip() for cell in line.split(" | ")] for line in TEXT.splitlines() if line.startswith("| ")]
DEFINED = sorted(set(re.findall(r"`((?:trainer_hooks|monitor_server|dashboard)[\w.]*(?::[\w.]+)?)`", TEXT)))
# Metaphors that were replaced by the terms of the field; a name of the code may not hold them again.
GIVEN_UP = ["Courier", "Shipper", "Correspondent", "Outbox", "Tally", "PersonsWord"]


@pytest.mark.parametrize("place", DEFINED)
def test_a_name_is_defined_where_the_glossary_says(place):
    """The module is imported, and the attribute or field is there."""
    module, _, path = place.partition(":")
    held = importlib.import_module(module)
    for name in filter(None, path.split(".")):
        fields = getattr(held, "__annotations__", {})
        assert hasattr(held, name) or name in fields, f"{module} has no {path}"
        held = getattr(held, name, None)


def test_a_name_has_one_meaning():
    """No name stands in two rows."""
    names = Counter(row[0].lstrip("| ") for row in ROWS if len(row) > 1)
    names.pop("name")
    assert not [name for name, count in names.items() if count > 1]


def test_names_that_were_given_up_are_gone():
    """No class, function or import of the packages holds one."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    held = re.compile(rf"(?:class|def|import)\s+\w*(?:{'|'.join(GIVEN_UP)})")
    assert not [str(path.relative_to(ROOT)) for path in paths if held.search(path.read_text())]
