"""Every detector has its page."""

from pathlib import Path

import pytest

from monitor_server.alerts.liveness import LOST, STALE
from monitor_server.detection.registry import DETECTORS

DOCS = Path(__file__).parents[3] / "docs" / "detectors"


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_has_a_page_that_names_what_it_reads(name):
    """The page exists, states severity and rule, and names the detector's first signal."""
    page = (DOCS / f"{name}.md").read_text()
    assert "**Severity**" in page
    assert "**Rule.**" in page
    assert DETECTORS[name].reads[0] in page


@pytest.mark.parametrize("kind", [STALE, LOST])
def test_what_the_clock_detects_has_its_page(kind):
    """A stall and a lost trainer are failures like any other; the clock of the collector detects them."""
    page = (DOCS / f"{kind}.md").read_text()
    assert f"(`{kind}`)" in page
    assert "**What to do.**" in page
