"""Blocks of a page of results: what ran is replaced, with its command, version and pictures; the rest stays."""

import pytest

from benchmarks.detection.results_page.blocks import Picture, write_blocks
from benchmarks.detection.results_page.tables import Section, Table
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from tests.full_disk import disk_of

PAGE = """# Results

By hand.

<!-- suite a -->

old

<!-- end -->

<!-- suite c -->

kept

<!-- end -->
"""


def test_a_block_is_replaced_in_its_order_and_names_what_printed_it(tmp_path):
    """Suite b is new and goes between a, which is replaced, and c, which is kept; a second time changes nothing."""
    page = tmp_path / "results.md"
    page.write_text(PAGE)
    found = {
        name: [Section(title=f"Suite {name}", tables=[Table(title="T", header=("h",), rows=[("1",)])])] for name in "ab"
    }
    pictures = {"b": [Picture(name="b", text="A curve", svg="<svg/>")]}
    for _ in range(2):
        write_blocks(page, "python -m x --suite a", found, order=("a", "b", "c"), pictures=pictures)
    text = page.read_text()
    assert text.startswith("# Results\n\nBy hand.\n\n<!-- suite a -->")
    assert "old" not in text
    assert text.index("## Suite a") < text.index("## Suite b") < text.index("kept")
    assert text.count(f"Printed by `python -m x --suite a` with the detectors `{DETECTOR_VERSION}`.") == 2
    assert "![A curve](results-b.svg)" in text
    assert (tmp_path / "results-b.svg").read_text() == "<svg/>"


def test_a_page_that_is_not_there_is_created(tmp_path):
    """It holds the suites that ran, and nothing else."""
    page = tmp_path / "results.md"
    write_blocks(page, "x", {"a": [Section(title="Suite a")]}, order=("a",))
    assert page.read_text().startswith("<!-- suite a -->\n\n## Suite a\n")


def test_a_full_disk_leaves_the_page_as_it_was(tmp_path):
    """Blocks of suites that took hours stay whole."""
    page = tmp_path / "results.md"
    page.write_text(PAGE)
    with disk_of(60), pytest.raises(OSError, match="too large"):
        write_blocks(page, "x", {"a": [Section(title="Suite a")]}, order=("a", "c"))
    assert page.read_text() == PAGE
