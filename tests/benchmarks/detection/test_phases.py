"""Phase scores worked by hand."""

import numpy as np
import pytest

from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.phases import macro_f1, score_phases
from benchmarks.detection.scoring.traces import Mark, Trace
from monitor_server.detection.protocol import Phase

BENIGN = Truth(group=Group.BENIGN, kind="benign/none")
DYING = Truth(group=Group.DISPLACEMENT, kind="displacement/none", onset=4, acceleration=6, collapse=8)


def phases(truth, *named):
    """Return a trace that names one phase a step."""
    return Trace.of("run", truth, range(len(named)), [Mark(phase=phase) for phase in named])


def test_macro_f1_is_the_mean_over_classes():
    """Classes 0 and 1: F1 = 2·1/(2+1) = 2/3 and 2·1/(1+2) = 2/3; class 2 is nowhere and left out."""
    assert macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1])) == pytest.approx(2 / 3)


def test_phases_are_scored_up_to_the_collapse():
    """Of 8 rows before the collapse decay is named one row late and acceleration in time: 7/8, delays 1 and 0."""
    seen = [Phase.WARMUP, *[Phase.HEALTHY] * 4, Phase.DECAY, Phase.ACCELERATION, Phase.ACCELERATION, Phase.HEALTHY]
    quiet = [Phase.STAGNATION] * 3 + [Phase.DECAY]
    score = score_phases([phases(DYING, *seen), phases(BENIGN, *quiet)])
    assert score.accuracy == pytest.approx(7 / 8)
    assert score.decay_delay == 1
    assert score.acceleration_delay == 0
    assert score.benign_mislabelled == 0.25


def test_a_candidate_without_phases_has_no_phase_score():
    """Baselines and peers name none."""
    assert score_phases([phases(DYING, None, None), phases(BENIGN, None)]) is None
