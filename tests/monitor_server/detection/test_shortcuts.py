"""The statistics take shortcuts where a bound decides; here they are compared with their definitions, row by row."""

import json
import random
import statistics
from collections import deque

import pytest

from monitor_server.detection.base_classes.detector import ROWS_PER_SELECTION, DetectorGroup
from monitor_server.detection.detectors.non_finite import NonFinite
from monitor_server.detection.detectors.zero_rate import ZeroRate
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import build_detectors
from monitor_server.detection.statistics.departure import Departure, Size
from monitor_server.detection.statistics.history import History
from monitor_server.detection.statistics.rare_loss import RareLoss
from monitor_server.detection.statistics.rarity import is_rarer, rarity
from monitor_server.detection.statistics.state import Stateful

SIZES = (
    Size(factor=2.0, least=0.1, rows=2, rarity=0.02),
    Size(factor=0.6, errors=3.0, rows=3),
    Size(least=0.3, rows=10, noise=0.02),
    Size(factor=0.3, least=0.02, rows=2, each=True, rarity=3e-4),
    Size(factor=5.0, errors=6.0, rows=9),
    Size(),
)


def wander(seed, rows=400):
    """Return values that are noise, with lasting jumps, spikes, repeated values and a change of sign."""
    noise, level, values = random.Random(seed), 1.0, []  # noqa: S311 - made-up series
    for _ in range(rows):
        if noise.random() < 0.03:
            level *= noise.choice([0.2, 3.0, -1.0, 0.0, 1.3])
        value = level + 0.05 * noise.gauss(0.0, 1.0)
        values.append(noise.choice([value, value, value, level, 20.0 * value if noise.random() < 0.1 else value]))
    return values


def departs(values, floor, size):
    """Return whether the newest of all values depart, by the definition."""
    before, newest = values[: -size.rows - 1][-40:], values[-size.rows :]
    if len(before) < 4:
        return False
    baseline, level = statistics.median(before), statistics.median(newest)
    sign = -1.0 if size.is_fall else 1.0
    spread = 1.4826 * statistics.median([abs(value - baseline) for value in before]) * (1.0 + 4.0 / len(before))

    def is_beyond(value):
        if size.is_fall:
            return value - floor < size.factor * (baseline - floor)
        return size.factor == 1.0 or value > size.factor * baseline

    return (
        sign * (level - baseline) > size.least
        and is_beyond(level)
        and (not size.each or all(map(is_beyond, newest)))
        and sign * (level - baseline) > size.errors * (spread + size.noise)
        and rarity(values[-(41 + size.rows) :], falls=size.is_fall) < size.rarity
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_departure_is_found_at_the_rows_of_its_definition(size):
    """A limit that holds for some rows passes over no row that departs."""
    found = 0
    for seed in range(6):
        signal, values, floor = Departure(size), [], 0.0
        for value in wander(seed):
            values.append(value)
            floor = min(floor, value)
            assert signal.update(value) is departs(values, floor, size)
            found += signal.departs
    assert found > 10


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_departure_that_is_restored_at_every_row_saves_the_same(size):
    """The order that it keeps of its window while it is compared changes no number."""
    kept, restored = Departure(size), Departure(size)
    for value in wander(7):
        kept.update(value)
        restored.update(value)
        assert restored.state() == kept.state()
        state, restored = restored.state(), Departure(size)
        restored.load(state)


def _departures(owner):
    """Return the departures among the attributes of an object, and among those of the objects that it holds."""
    if isinstance(owner, dict | list | tuple):
        held = owner.values() if isinstance(owner, dict) else owner
    else:
        held = vars(owner).values() if isinstance(owner, Stateful) else ()
    found = {id(owner): owner} if isinstance(owner, Departure) else {}
    for each in held:
        found |= _departures(each)
    return found


class CountingDeque(deque):
    """Counts how often all of its values are read, which is what a look costs."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize("size", [Size(), Size(factor=0.5, rows=3)])
def test_a_departure_that_compares_nothing_has_the_levels_of_one_that_compares_every_row(size):
    """Also after a rewind, and after a state was saved and restored."""
    noise, kept, compared = random.Random(5), Departure(size), Departure(size)  # noqa: S311 - synthetic telemetry
    for row in range(120):
        value = noise.gauss(1.0 if row < 60 else 4.0, 0.2)
        kept.append(value)
        compared.update(value)
        if row == 90:
            kept.take_back(5, 85)
            compared.take_back(5, 85)
            kept.load(json.loads(json.dumps(kept.state())))
        assert (kept.level, kept.baseline, kept.change) == (compared.level, compared.baseline, compared.change)
    assert not kept.departs


def test_the_departures_of_a_run_look_at_their_baselines_on_different_rows():
    """A row on which many of them do it would be one of the slowest."""
    signals, looks = list(_departures(build_detectors()).values()), []
    for signal in signals:
        signal.values = CountingDeque(signal.values, maxlen=signal.values.maxlen)
    assert len(signals) > 32
    for value in [1.0] * 400:  # which no row of theirs compares between two looks
        before = sum(signal.values.reads for signal in signals)
        for signal in signals:
            signal.update(value)
        looks.append(sum(signal.values.reads for signal in signals) - before)
    assert sum(looks[100:]) > 300
    assert max(looks[100:]) < 10  # without turns it is 19; with them it depends on how many were created before


@pytest.mark.parametrize("size", SIZES)
def test_the_turn_in_which_a_departure_looks_changes_no_result(size):
    """Each of several departures looks on other rows, and all of them depart on the same."""
    signals = [Departure(size) for _ in range(5)]
    for value in wander(2):
        assert len({signal.update(value) for signal in signals}) == 1
    assert all(signal.state() == signals[0].state() for signal in signals)


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_loss_is_as_rare_as_by_its_definition(share):
    """The largest reward decides most rows, and an ordered baseline the others."""
    found = set()
    for seed in range(6):
        loss, values, floor = RareLoss(share), [], 0.0
        for reward in wander(seed):
            values.append(reward)
            floor, least, is_high = min(floor, reward), 1.0, reward >= statistics.median(values[-46:])
            for rows in range(2, 7):
                before, newest = values[-46:][:-rows][-40:], values[-rows:]
                baseline = statistics.median(before) if len(before) >= 4 else floor
                if not is_high and baseline - floor > 0.02 and max(newest) < floor + share * (baseline - floor):
                    least = min(least, rarity([*before, *newest], falls=True, rows=(rows,)))
            assert loss.update(reward) == least
            assert loss.largest == max(values[-46:])
            found.add(least)
    assert len(found) > 5


def test_a_bound_of_rarity_agrees_with_the_rarity():
    """This holds for every bound."""
    for seed in range(6):
        values = wander(seed, 60)
        for end in range(2, 60):
            for falls in (False, True):
                for bound in (0.02, 1e-3, 3e-4):
                    assert is_rarer(values[:end], sorted(values[: end // 2]), bound, falls=falls) is (
                        rarity(values[:end], falls=falls) < bound
                    )


def test_the_least_scale_is_never_above_the_scale():
    """A caller that only compares may use it instead."""
    history, most = History(length=40), 0.0
    for value in wander(3):
        history.append(value)
        least, scale = history.least_scale, history.scale
        if scale is not None:
            assert 0.0 < least <= scale
            most = max(most, least / scale)
    assert most > 0.99


def test_a_check_that_is_over_is_not_asked_again():
    """The checks of the first rows end, and the group passes over them from its next selection on."""
    rows = []

    class CountingZeroRate(ZeroRate):
        def _observe(self, observation):
            rows.append(observation.step)
            return super()._observe(observation)

    over, goes_on = CountingZeroRate(), NonFinite()
    group = DetectorGroup([over, goes_on])
    for step in range(130):
        group.update(Observation(step=step, signals={"lr": 1e-6, "reward/mean": 0.5 + 0.01 * (step % 3)}))
    assert over.has_ended
    assert not goes_on.has_ended
    assert rows == list(range(ROWS_PER_SELECTION))
