"""Steps with only a share of the ranks: alarms need more strength to open there, and open alarms stay."""

import math

import pytest

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation, Severity

SHARE = "step/seen_frac"


def severities(shares, *, ratio=0.4):
    """Return the severity of the sampler mismatch at each step, at which a share of the ranks was seen."""
    engine, found = Engine(), []
    for step, share in enumerate(shares):
        signals = {"mismatch/ratio": ratio} | ({} if share is None else {SHARE: share})
        (finding,) = engine.update(Observation(step=step, signals=signals)).findings
        found.append(finding)
    return found


def test_an_alarm_opens_at_a_whole_step_and_not_at_half_a_step_of_the_same_numbers():
    """The ratio 0.4 has a strength of ln 2.5 / ln 2 = 1.32; half of the ranks need 1.41, and three quarters 1.15."""
    half, whole = severities([0.5, None])
    assert (half.severity, whole.severity) == (Severity.INFO, Severity.WARNING)
    assert half.evidence["strength"] == pytest.approx(math.log(2.5) / math.log(2.0))
    assert half.evidence["strength_needed"] == pytest.approx(math.sqrt(2.0))
    (most,) = severities([0.75])
    assert most.severity is Severity.WARNING


def test_an_open_alarm_stays_open_through_an_incomplete_step():
    """A lost rank ends no alarm."""
    assert [finding.severity for finding in severities([None, 0.1, None])] == [Severity.WARNING] * 3


def test_strong_evidence_and_nan_open_an_alarm_however_little_was_seen():
    """A ratio of 0.01 is 6.6 times the bound, and NaN has no degree."""
    assert severities([0.25], ratio=0.01)[0].severity is Severity.WARNING
    signals = {"grad/norm": math.nan, SHARE: 0.01}
    (finding,) = Engine().update(Observation(step=1, signals=signals)).findings
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize("share", [0.0, -1.0, 1.0, 2.0, math.nan, math.inf])
def test_a_share_that_is_none_changes_nothing(share):
    """Only a share between 0 and 1 counts: a trainer may send the name itself."""
    assert severities([share])[0].severity is Severity.WARNING
