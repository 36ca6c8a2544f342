"""Every detector has a page that agrees with its code."""

import doctest
from pathlib import Path

import pytest

from monitor_server.alerts.liveness import LOST, STALE
from monitor_server.detection.registry import DETECTORS

DOCS = Path(__file__).parents[3] / "docs" / "detectors"
SECTIONS = ["## What it means", "## Example", "## Limits", "## What to do", "## Rule"]


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_has_a_page_that_names_what_it_reads(name):
    """The page states kind, severity and every signal, and has all sections, the meaning first and the rule last."""
    page, detector = (DOCS / f"{name}.md").read_text(), DETECTORS[name]
    assert f"(`{detector.kind}`)" in page
    assert f"**Severity** {detector.severity}" in page
    assert all(signal in page for signal in detector.reads)
    assert [line for line in page.splitlines() if line.startswith("## ")] == SECTIONS


@pytest.mark.parametrize("name", DETECTORS)
def test_the_example_of_a_page_is_the_one_that_is_tested(name):
    """The last line of the detector's tested example, and its result, stand on the page."""
    page, last = (DOCS / f"{name}.md").read_text(), doctest.DocTestParser().get_examples(DETECTORS[name].__doc__)[-1]
    assert last.source.strip() in page
    assert last.want.strip() in page


@pytest.mark.parametrize("kind", [STALE, LOST])
def test_what_the_clock_detects_has_its_page(kind):
    """A stall and a lost trainer are failures like any other; the clock of the collector detects them."""
    page = (DOCS / f"{kind}.md").read_text()
    assert f"(`{kind}`)" in page
    assert [line for line in page.splitlines() if line.startswith("## ")] == SECTIONS
