"""Random runs of all signals, with rewinds, gaps, odd values and acknowledgements, long enough to fill every window."""

import json
import math
import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor_server.detection.calibration import CLASSES, Calibration, Profile
from monitor_server.detection.engine import EngineFactory
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS, READ_SIGNALS

SIGNALS = sorted(READ_SIGNALS)
KINDS = sorted({detector.kind for detector in DETECTORS.values()})
ODD_VALUES = (math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308, 5e-324, 1e9)
ROWS = 120
ENGINES = [
    EngineFactory(Calibration(id="own", profiles=profiles, warranty=warranty))
    for profiles in ({}, dict.fromkeys(CLASSES, Profile(warn=1.2, page=1.5)))
    for warranty in (None, Warranty(steps_per_page=100, runs=5, steps=500, longest=100, weight=2.0))
]


def random_run(draw: random.Random) -> Iterator[Observation]:
    """Yield a run whose signals stay, drift or jump; one row in thirty goes back, and one value in a hundred is odd."""
    names = draw.sample(SIGNALS, draw.randint(3, len(SIGNALS)))
    levels = {name: draw.choice((0.1, 0.3, 1.0, -0.5)) for name in names}
    slopes = {name: draw.choice((0.0, 0.0, 0.0, 0.02, -0.02)) for name in names}
    jumps = {name: draw.choice((0.0, 0.0, 0.5, -0.5, 5.0, -5.0)) for name in names}
    jump_row = draw.randint(15, ROWS // 2)
    step, attempt = 0, 1
    for row in range(ROWS):
        step += draw.choice((1, 1, 1, 2))
        if draw.random() < 1 / 30:
            step, attempt = max(0, step - draw.choice((0, 1, 5, 30, 45, ROWS))), attempt + 1
        moved = {name: slopes[name] * row + jumps[name] * (row >= jump_row) for name in names}
        seen = {name: levels[name] + moved[name] + draw.gauss(0, 0.05) for name in names}
        odd = {name: draw.choice(ODD_VALUES) for name in names if draw.random() < 0.01}
        signals = {name: value for name, value in (seen | odd).items() if draw.random() < 0.9}
        yield Observation(
            step=step,
            attempt=attempt,
            signals=signals,
            data_version=None if row < ROWS / 2 else "next",
            acknowledged=tuple(draw.sample(KINDS, 3)) if draw.random() < 0.05 else (),
        )


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_engine_that_is_saved_at_random_rows_finds_what_another_one_finds(seed):
    """No row raises, and a state that went through JSON goes on as the engine that was never saved."""
    draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
    create = draw.choice(ENGINES)
    engine, restored = create(), create()
    for observation in random_run(draw):
        assert repr(restored.update(observation)) == repr(engine.update(observation))
        if draw.random() < 0.2:
            restored = create.from_state(json.loads(json.dumps(restored.state())))
    assert repr(restored.state()) == repr(json.loads(json.dumps(engine.state())))
