"""Each name of the glossary exists once in the code, where the glossary states."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [[cell.strip() for cell in line.split(" | ")] for line in TEXT.splitlines() if line.startswith("| ")]
DEFINED = sorted(set(re.findall(r"`((?:trainer_hooks|monitor_server|dashboard)[\w.]*(?::[\w.]+)?)`", TEXT)))


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
