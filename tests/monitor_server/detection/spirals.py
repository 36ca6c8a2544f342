"""Runs that drift and then accelerate, made by seed, and the steps at which the engine finds it."""

import math
import random

from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation

GOLDEN = {
    ("likelihood_drift", "info"): 70,
    ("likelihood_drift", "warning"): 75,
    ("difficulty_shift", "info"): 110,
    ("death_spiral", "critical"): 113,
    ("joint_departure", "warning"): 133,
    ("run_collapsed", "critical"): 139,
    ("entropy_explosion", "warning"): 140,
    ("reward_fall", "warning"): 137,
}


def spiral(*, rows=160, drift_at=60, surge_at=110, seed=3, paired=True):
    """Return a run that drifts from one step on and accelerates from another, wandering with momentum."""
    rng = random.Random(seed)  # noqa: S311 - synthetic telemetry
    drifted, wandered, pace, run = 0.4, 0.0, 0.0, []
    for step in range(rows):
        pace = 0.6 * pace + 0.0008 * rng.gauss(0, 1)
        change = pace - 0.02 * wandered
        wandered += change
        late = max(0, step - surge_at)
        slope = (0.002 if step > drift_at else 0.0) * math.exp(0.12 * late)
        drifted = min(3.0, drifted + slope)
        entropy = drifted + wandered
        signals = {
            "entropy/mean": entropy + 0.01 * rng.gauss(0, 1),
            "likelihood/correct": -entropy + 0.03 * rng.gauss(0, 1),
            "grad/norm": math.exp(0.15 * rng.gauss(0, 1) + 0.12 * min(late, 30)),
            "ratio/max": 1.5 * math.exp(0.05 * rng.gauss(0, 1) + 0.03 * min(late, 40)),
            "reward/mean": max(0.0, min(0.6, 0.2 + 0.004 * step) - 0.03 * max(0, late - 15)) + 0.02 * rng.gauss(0, 1),
        }
        if paired:
            signals["entropy/paired_delta"] = slope + change + 0.0005 * rng.gauss(0, 1)
        run.append(Observation(step=step, signals=signals))
    return run


def first_steps(run, engine=None):
    """Return the step at which each kind at each severity is first found."""
    engine, first = engine or Engine(), {}
    for observation in run:
        for finding in engine.update(observation).findings:
            first.setdefault((finding.kind, str(finding.severity)), finding.step)
    return first
