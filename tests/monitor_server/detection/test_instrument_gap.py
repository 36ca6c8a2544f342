"""The instrument gap: what is more than rounding, how long it must last, and how it ends."""

import math

import pytest

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.detectors.instrument_gap import InstrumentGap
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation

# Signal, a gap that is rounding, a gap that is not.
SIGNALS = [
    ("instrument/logprob_abs", 0.042, 0.06),
    ("instrument/entropy_abs", 0.042, 0.06),
    ("instrument/mask_frac", 0.0, 0.001),
]
each_signal = pytest.mark.parametrize(("signal", "rounding", "gap"), SIGNALS, ids=[case[0] for case in SIGNALS])


def row(step, *, attempt=1, **signals):
    """Return a row with these signals of the instrument, written with an underscore."""
    named = {name.replace("instrument_", "instrument/"): value for name, value in signals.items()}
    return Observation(step=step, attempt=attempt, signals=named | {"reward/mean": 0.5})


@each_signal
def test_three_successive_gaps_are_a_warning_and_rounding_is_none(signal, rounding, gap):
    """Two gaps and one without are no finding; three in a row are one; rounding is never one."""
    assert episodes(InstrumentGap(), {signal: [rounding] * 60}) == []
    assert episodes(InstrumentGap(), {signal: [gap, gap, rounding] * 20}) == []
    assert episodes(InstrumentGap(), {signal: [rounding, gap, gap, gap]}) == [(3, "instrument_gap", "warning")]


def test_it_holds_between_comparisons_and_ends_after_two_without_a_gap():
    """Of comparisons at every tenth step the third opens it; it holds in between, and ends with the second good one."""
    judge, held = InstrumentGap(), []
    for step in range(1, 81):
        gap = {"instrument_logprob_abs": 0.3 if step <= 50 else 0.001} if step % 10 == 0 else {}
        held += [step for _ in judge.update(row(step, **gap))]
    assert held == list(range(30, 70))


def test_the_evidence_names_what_differs():
    """The finding is about log-probabilities, and names the mask as agreeing."""
    judge, found = InstrumentGap(), ()
    for step in range(3):
        found = judge.update(
            row(step, instrument_logprob_abs=0.3, instrument_entropy_abs=0.01, instrument_mask_frac=0.2)
        )
    (finding,) = found
    assert finding.evidence["signal"] == "instrument/logprob_abs"
    assert finding.evidence["agreeing"] == ["instrument/mask_frac"]
    assert finding.evidence["onset"] == [0, 0]
    assert finding.strength == pytest.approx(6.0)
    assert "differ from recomputed ones by 0.3 nat" in finding.summary
    (finding,) = judge.update(row(3, instrument_mask_frac=0.2))  # the log-probabilities have agreed since
    assert "on 0.2 of the tokens; comparisons fail since step 0," in finding.summary


def test_a_rewind_takes_gaps_back():
    """Gaps in replaced rows do not count, and a finding that opened in them ends; the one before them counts."""
    judge = InstrumentGap()
    for step in (10, 20, 30):
        found = judge.update(row(step, instrument_logprob_abs=0.3))
    assert found
    assert not judge.update(row(20, attempt=2, instrument_logprob_abs=0.3))
    assert judge.update(row(30, attempt=2, instrument_logprob_abs=0.3))


def test_nothing_is_observed_without_a_comparison():
    """A run without the signals, or with NaN in them, has no finding."""
    judge = InstrumentGap()
    assert not [found for step in range(50) for found in judge.update(row(step))]
    assert not [found for step in range(50, 99) for found in judge.update(row(step, instrument_logprob_abs=math.nan))]


def test_the_engine_reports_it_beside_a_healthy_phase():
    """A gap is a warning of its own, and changes no phase."""
    engine, kinds, phases = Engine(), set(), set()
    for step in range(30):
        likelihood = -0.4 - 0.001 * (step % 3)
        signals = {
            "likelihood/correct": likelihood,
            "entropy/mean": 0.5,
            "reward/mean": 0.3,
            "instrument/entropy_abs": 0.2,
        }
        assessment = engine.update(Observation(step=step, signals=signals))
        kinds |= {finding.kind for finding in assessment.findings}
        phases.add(str(assessment.phase))
    assert kinds == {"instrument_gap"}
    assert phases == {"warmup", "healthy"}
