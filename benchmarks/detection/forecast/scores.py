"""Scores of probabilities: Brier score, calibration error, reliability and net benefit, each for one horizon."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EDGES", "Bin", "Score", "score"]

EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
DRAWS = 2000
ACTS_AT = 0.2  # the probability from which on a person acts, for the net benefit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The rows whose probability lies between two edges: mean probability, share that collapsed, number of rows."""

    forecast: float
    observed: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The scores of a forecast on one suite at one horizon.

    Attributes:
        rows: Rows whose outcome is known.
        rate: Share of them that collapse within the horizon. It is the reference forecast.
        brier: Mean squared error of the probabilities.
        gain: Brier score of the rate minus that of the forecast; above 0 the forecast is better.
        gain_interval: Its 95 % interval over units drawn with replacement.
        calibration_error: Σ over bins of their share of rows times |mean probability − share that collapsed|.
        calibration_interval: Its 95 % interval over units drawn with replacement. The error of a draw is mostly above
            that of the suite, because a sum of absolute values grows with noise: the upper end is a cautious one.
        net_benefit: (true − false · p / (1 − p)) / rows, for acting at p = 0.2 and above; acting never gives 0.
        net_benefit_interval: Its 95 % interval.
        bins: The reliability diagram, bins without rows left out.
    """

    rows: int
    rate: float
    brier: float
    gain: float
    gain_interval: tuple[float, float]
    calibration_error: float
    calibration_interval: tuple[float, float]
    net_benefit: float
    net_benefit_interval: tuple[float, float]
    bins: tuple[Bin, ...]


def score(probabilities: NDArray[np.float64], outcomes: NDArray[np.float64], units: NDArray[np.str_]) -> Score:
    """Score probabilities against outcomes of 0, of 1 and of NaN for an unknown outcome.

    Args:
        probabilities: One for each row.
        outcomes: One for each row.
        units: The unit of each row; units are drawn with replacement for the intervals.
    """
    known = ~np.isnan(outcomes)
    p, y, units = probabilities[known], outcomes[known], units[known]
    rate = float(y.mean())
    gains = (rate - y) ** 2 - (p - y) ** 2
    acts = p >= ACTS_AT
    benefits = np.where(acts, np.where(y == 1.0, 1.0, -ACTS_AT / (1.0 - ACTS_AT)), 0.0)
    places = np.minimum(np.searchsorted(EDGES, p, side="right") - 1, len(EDGES) - 2)
    # The calibration error of a draw needs, of each unit, Σ (p − y) in each bin.
    errors = np.where(places[:, None] == np.arange(len(EDGES) - 1), (p - y)[:, None], 0.0)
    return Score(
        rows=len(p),
        rate=rate,
        brier=float(((p - y) ** 2).mean()),
        gain=float(gains.mean()),
        gain_interval=_interval(gains[:, None], units),
        calibration_error=float(np.abs(errors.mean(axis=0)).sum()),
        calibration_interval=_interval(errors, units, absolute=True),
        net_benefit=float(benefits.mean()),
        net_benefit_interval=_interval(benefits[:, None], units),
        bins=_bins(p, y, places),
    )


def _bins(p: NDArray[np.float64], y: NDArray[np.float64], places: NDArray[np.int64]) -> tuple[Bin, ...]:
    held = [places == place for place in range(len(EDGES) - 1)]
    return tuple(
        Bin(forecast=float(p[h].mean()), observed=float(y[h].mean()), rows=int(h.sum())) for h in held if h.any()
    )


def _interval(values: NDArray[np.float64], units: NDArray[np.str_], *, absolute: bool = False) -> tuple[float, float]:
    """Return the 95 % interval of a sum of the columns' means over units drawn with replacement.

    Args:
        values: One row of numbers for each row.
        units: The unit of each row.
        absolute: Whether the sum is of the means' absolute values.
    """
    names, places = np.unique(units, return_inverse=True)
    sums = np.stack([np.bincount(places, weights=column) for column in values.T], axis=1)
    counts = np.bincount(places)
    drawn = np.random.default_rng(0).integers(0, len(names), size=(DRAWS, len(names)))
    means = np.array([sums[units].sum(axis=0) / counts[units].sum() for units in drawn])
    low, high = np.quantile((np.abs(means) if absolute else means).sum(axis=1), [0.025, 0.975])
    return float(low), float(high)
