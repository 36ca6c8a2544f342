"""The expected range of healthy runs behind the curves, in a real browser."""

import json

import pytest
from playwright.sync_api import expect

from monitor_server.detection.base_classes.detector import DETECTOR_VERSION

ATTACH = "dashboard.app:attach"
RECORDS = [{"step": step, "time": 1.7e9 + 60 * step, "scalars": {"reward/mean": 0.1 * step}} for step in range(10)]


def areas_in(chart):
    """Return JavaScript that counts the areas with a height and a width in a chart."""
    drawn = f"[...document.querySelectorAll('{chart} .shapelayer path')].filter((path) => path.getBBox().width > 50)"
    return f"() => {drawn}.some((path) => /L.*L.*L.*L.*L.*L.*Z/.test(path.getAttribute('d')))"


def test_charts_shade_where_healthy_runs_were(tmp_path, start_collector, visit):
    """The area has the corners of two intervals, in the vital signs and in a panel, by step and by time."""
    file = tmp_path / "own.json"
    expected = {"reward/mean": {"steps": [0, 8, 12], "low": [0.1, 0.4], "high": [0.5, 0.8], "runs": 7}}
    file.write_text(json.dumps({"id": "own", "detectors": DETECTOR_VERSION, "profiles": {}, "expected": expected}))
    collector = start_collector(dashboard=ATTACH, calibration=file)
    run_id = collector.run(run="known", records=RECORDS)
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    shaded = "Shaded: the range of 90 % of the values of 7 or more healthy runs."
    expect(visit.page.get_by_text(shaded, exact=True)).to_be_visible()
    visit.page.wait_for_function(areas_in("#run-figure"))
    session = visit.page.context.new_cdp_session(visit.page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    visit.page.goto(f"{collector.url}/runs/{run_id}?x=time")
    visit.page.locator(".workspace-bar").scroll_into_view_if_needed()
    visit.page.wait_for_function(areas_in("[data-panel]"))
    (line, area) = (visit.page.locator(f"[data-panel] {drawn}").last for drawn in (".js-line", ".shapelayer path"))
    assert area.bounding_box()["x"] == pytest.approx(line.bounding_box()["x"], abs=5)


def test_without_a_calibration_the_page_says_how_to_learn_it(start_collector, visit):
    """A range that is unknown is shown as not observed."""
    collector = start_collector(dashboard=ATTACH)
    run_id = collector.run(run="unknown", records=RECORDS)
    visit.page.goto(f"{collector.url}/runs/{run_id}")
    expect(visit.page.get_by_text("not observed - rlvitals calibrate learns it")).to_be_visible()
