"""The Python blocks of docs/trainers can be copied alone: they import every name that is not the reader's own."""

import ast
import builtins
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "trainers"
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{place}")
    for page in sorted(PAGES.glob("*.md"))
    for place, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
# The names that the reader's script has: its model, data and loop.
OWN = {"data", "held_out", "held_out_correct", "held_out_mask", "loss", "model", "my_held_out_responses", "optimizer"}
OWN |= {"score", "trainer"}


def names_without_a_meaning(block):
    """List the names that a block uses and neither binds nor imports."""
    tree = list(ast.walk(ast.parse(block)))
    bound = {node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in tree if isinstance(node, ast.arg)}
    bound |= {node.name for node in tree if isinstance(node, ast.FunctionDef)}
    bound |= {(node.asname or node.name).split(".")[0] for node in tree if isinstance(node, ast.alias)}
    used = {node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - bound - vars(builtins).keys()


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_imports_every_name_that_is_not_the_readers(block):
    """A line that is copied from a page must not end in a NameError."""
    assert names_without_a_meaning(block) <= OWN


def test_the_blocks_are_found_and_a_missing_import_is_seen():
    """The pages have blocks, and a class that nothing imports counts."""
    assert len(BLOCKS) > 8
    assert names_without_a_meaning("trainer = Trainer(callbacks=[print])") == {"Trainer"}
