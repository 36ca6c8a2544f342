"""The death spiral where the noise of the paired channel hides the drift: the loss of reward shows its damage."""

import math
import random

import pytest

from monitor_server.detection.protocol import Observation
from tests.monitor_server.detection.subjects import SpiralWithDrifts

ONSET = 25


def violent_start(*, slope=0.02, loss=0.03, surge=0.08, seed=9):
    """Return 40 rows whose first updates move entropy up and down by half a nat; from row 25 on the policy drifts.

    Entropy then rises by ``slope`` a row, the reward falls by ``loss``, and the log gradient norm grows by ``surge``.
    """
    noise, entropy, swing, rows = random.Random(seed), 0.3, 0.0, []  # noqa: S311 - synthetic telemetry
    for step in range(40):
        since = max(0, step - ONSET + 1)
        swing = 0.8 * swing + noise.gauss(0.0, 0.04 if step < 12 else 0.004)
        change = swing + (slope if since else 0.0)
        entropy += change
        signals = {
            "entropy/mean": entropy + noise.gauss(0.0, 0.02),
            "entropy/paired_delta": change,
            "likelihood/correct": -0.2 + noise.gauss(0.0, 0.02),
            "reward/mean": 0.6 + noise.gauss(0.0, 0.08) - loss * since,
            "grad/norm": 0.3 * math.exp(noise.gauss(0.0, 0.1) + surge * since),
        }
        rows.append(Observation(step=step, signals=signals))
    return rows


def reports(rows):
    """Return step and rule of each finding of a death spiral beside its drifts, and whether a drift warned."""
    judge = SpiralWithDrifts()
    found = [(finding.step, finding.evidence["opened_by"]) for row in rows for finding in judge.update(row)]
    return found, any(drift.active for drift in judge.drifts)


def test_a_loss_of_reward_pages_where_the_first_updates_hide_the_drift():
    """The drift has not warned by the last row; the page comes five rows after the onset."""
    found, warned = reports(violent_start())
    assert found[0] == (30, "large drift, surge and loss")
    assert not warned


@pytest.mark.parametrize("quiet", ["slope", "loss", "surge"])
def test_each_of_drift_loss_and_surge_is_needed(quiet):
    """Two of the three are no page."""
    assert reports(violent_start(**{quiet: 0.0}))[0] == []


def test_the_loss_counts_only_beside_the_paired_channel():
    """Harder questions raise entropy and gradient and lower the reward; only paired scores tell them from a drift."""
    rows = [
        Observation(step=row.step, signals={n: v for n, v in row.signals.items() if n != "entropy/paired_delta"})
        for row in violent_start()
    ]
    assert all(rule != "large drift, surge and loss" for _, rule in reports(rows)[0])


def test_a_page_says_that_the_likelihood_accelerates_only_where_it_does():
    """Entropy and −likelihood rise by 0.005 nat at every step, as predicted; the surge alone opens the page."""
    judge, found = SpiralWithDrifts(), []
    for step in range(60):
        entropy, norm = 0.4 + 0.005 * step, 0.3 if step < 50 else 0.9
        signals = {"entropy/mean": entropy, "likelihood/correct": -entropy, "grad/norm": norm}
        found += judge.update(Observation(step=step, signals=signals))
    assert found[0].evidence["acceleration"] == pytest.approx(0.0)
    assert found[0].summary.startswith("The policy has drifted by 0.22 nat a token and the gradient surges (B = ")
