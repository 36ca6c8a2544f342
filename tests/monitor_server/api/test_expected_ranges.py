"""The ranges of the values of healthy runs, over the API."""

import json

import pytest

from monitor_server.detection.base_classes.detector import DETECTOR_VERSION

EXPECTED = {
    "reward/mean": {"steps": [0, 8, 12], "low": [0.1, 0.2], "high": [0.5, 0.6], "runs": 7},
    "entropy/mean": {"steps": [0, 8], "low": [1.0], "high": [2.0], "runs": 7},
}


@pytest.fixture
def calibrated(tmp_path, start_collector):
    """A collector that has the ranges of two signals."""
    file = tmp_path / "own.json"
    content = {"id": "own-1", "detectors": DETECTOR_VERSION, "profiles": {}, "expected": EXPECTED}
    file.write_text(json.dumps(content))
    return start_collector(calibration=file)


def test_the_ranges_of_the_calibration_are_returned(calibrated):
    """All of them, or those that are asked for; a signal without a range is left out."""
    run_id = calibrated.run(run="one", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    items = [{"signal": signal, **held} for signal, held in EXPECTED.items()]
    assert calibrated.get(f"/runs/{run_id}/expected-ranges") == {"calibration": "own-1", "items": items}
    asked = calibrated.get(f"/runs/{run_id}/expected-ranges?signals=entropy/mean&signals=other")
    assert asked["items"] == items[1:]


def test_without_a_calibration_nothing_is_expected(collector):
    """There is no range, and the thresholds are the built-in ones."""
    run_id = collector.run(run="one", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    assert collector.get(f"/runs/{run_id}/expected-ranges") == {"calibration": DETECTOR_VERSION, "items": []}
