"""The control of Fig. 4 in the evidence of a drift: length, searches and displacement since it began."""

import pytest

from monitor_server.detection.detector_parts.drift_controls import DriftControls
from monitor_server.detection.detectors.likelihood_drift import LikelihoodDrift
from monitor_server.detection.detectors.paired_drift import PairedDrift
from monitor_server.detection.protocol import Observation


def run(*, longer=0.0, searches=1.4, rows=90, drift_at=30):
    """A drift on both channels from a step on; each row after it has responses longer by a share."""
    entropy = 0.4
    for step in range(rows):
        change = (0.01 if step >= drift_at else 0.0) + 0.001 * (-1) ** step
        entropy += change
        signals = {"entropy/paired_delta": change, "entropy/mean": entropy, "likelihood/correct": -entropy}
        if searches is not None:
            signals |= {"tools/calls": 2.0, "tools/valid_frac": searches / 2.0, "displacement/cross": -0.002}
        signals["length/mean"] = 24.0 * (1.0 + longer * max(0, step - drift_at))
        yield Observation(step=step, signals=signals)


def last_evidence(detector, observations):
    """The evidence of the newest finding."""
    return [finding for row in observations for finding in detector.update(row)][-1].evidence


@pytest.mark.parametrize("detector", [PairedDrift, LikelihoodDrift])
def test_where_length_and_searches_stay_put_the_evidence_has_no_change(detector):
    """A drift of constant length and 1.4 searches: changes of 0, and a displacement of −0.002 a row since it began."""
    evidence = last_evidence(detector(), run())
    assert evidence["length_change"] == pytest.approx(0.0)
    assert evidence["searches_change"] == pytest.approx(0.0)
    rows = evidence["displacement_sum"] / -0.002
    assert rows == pytest.approx(round(rows))
    assert 40 <= round(rows) <= 61
    assert evidence["displacement_rate"] == pytest.approx(-0.002)
    assert evidence["accelerating_blocks"] >= 1


@pytest.mark.parametrize("detector", [PairedDrift, LikelihoodDrift])
def test_a_drift_with_longer_responses_and_no_tools_says_so(detector):
    """Length grows by 2 % a row; a signal that was never observed is named and is not 0."""
    evidence = last_evidence(detector(), run(longer=0.02, searches=None))
    assert evidence["length_change"] > 0.5
    assert evidence["searches_change"] == "not observed"
    assert evidence["displacement_sum"] == "not observed"


def test_changes_are_those_of_the_averages_worked_by_hand():
    """Eight rows of 10 tokens, a mark, then one of 20: the average goes to 10 + (20 − 10) / 9, a rise by a ninth."""
    controls = DriftControls()
    for step in range(8):
        controls.update(Observation(step=step, signals={"length/mean": 10.0}))
    controls.mark()
    controls.update(Observation(step=8, signals={"length/mean": 20.0, "displacement/cross": -0.5}))
    assert controls.evidence() == {
        "length_change": pytest.approx(1 / 9),
        "searches_change": "not observed",
        "displacement_sum": -0.5,
        "displacement_rate": "not observed",
        "accelerating_blocks": "not observed",
    }
    restored = DriftControls.from_state(controls.state())
    assert restored.evidence() == controls.evidence()
    for step in range(9, 15):
        controls.update(Observation(step=step, signals={}))
    assert controls.evidence()["length_change"] == "not observed"
    controls.restart()
    assert controls.evidence()["displacement_sum"] == "not observed"


def test_a_displacement_that_is_no_longer_measured_has_no_rate():
    """Its blocks say nothing about now; a measurement at every tenth step goes on with them."""
    controls = DriftControls()
    for step in range(400):
        signals = {"displacement/cross": -0.01} if step % 10 == 0 else {}
        controls.update(Observation(step=step, signals=signals))
    assert controls.evidence()["displacement_rate"] == pytest.approx(-0.01)
    for step in range(400, 460):
        controls.update(Observation(step=step, signals={"length/mean": 9.0}))
    assert controls.evidence()["displacement_rate"] == "not observed"
    assert controls.evidence()["accelerating_blocks"] == "not observed"
