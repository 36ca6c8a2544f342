"""Exact intervals against published and closed-form values."""

import pytest

from benchmarks.detection.scoring.intervals import clopper_pearson, garwood


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 2250, 0.0, 0.001638),  # 1 − 0.025^(1/2250)
        (18, 2250, 0.0047, 0.0126),  # detection.md, 3.6
        (3, 900, 0.0007, 0.0097),  # detection.md, 3.3
        (1, 1, 0.025, 1.0),  # P(X = 1) = p, so p = 0.025
    ],
)
def test_clopper_pearson_gives_known_intervals(count, total, low, high):
    """Shares have the exact binomial interval."""
    assert clopper_pearson(count, total) == pytest.approx((low, high), abs=6e-5)


def test_garwood_gives_known_intervals():
    """Rates have the exact Poisson interval: e^−λ = 0.025 gives λ = 3.689; tables give [4.795, 18.391] for 10."""
    assert garwood(0, 1.0) == pytest.approx((0.0, 3.6889), abs=1e-4)
    assert garwood(10, 1.0) == pytest.approx((4.7954, 18.3904), abs=1e-3)
    assert garwood(10, 2.0) == pytest.approx((2.3977, 9.1952), abs=1e-3)


def test_no_run_tells_nothing():
    """Without runs the interval of a share is everything."""
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("count", "total"), [(-1, 3), (4, 3)])
def test_an_impossible_count_is_refused(count, total):
    """A count outside 0 to total is an error that says so."""
    with pytest.raises(ValueError, match="count must lie in 0 to total"):
        clopper_pearson(count, total)
    with pytest.raises(ValueError, match="exposure > 0"):
        garwood(count, 0.0)
