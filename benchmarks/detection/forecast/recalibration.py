"""Recalibration: whether the probabilities of one group become right by what the other groups say of their size."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.detection.forecast.rows import Rows
from monitor_server.detection.protocol import HORIZONS

__all__ = ["recalibrated"]

LEAST = 1e-6  # of a probability and of its complement


def recalibrated(rows: Rows, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(−a − s · log-odds)) for each horizon, with a and s > 0 from all other groups.

    Args:
        rows: The rows that the probabilities are of; those of a unit weigh 1/√n each.
        probabilities: One column for each horizon, of models that did not see the group of the row.

    Reference:
        Platt, "Probabilistic Outputs for Support Vector Machines" (1999).
    """
    kept = np.clip(probabilities, LEAST, 1.0 - LEAST)
    log_odds = np.log(kept / (1.0 - kept))
    counts = dict(zip(*np.unique(rows.units, return_counts=True), strict=True))
    weights = np.array([counts[unit] ** -0.5 for unit in rows.units])
    found = np.empty_like(log_odds)
    for column, horizon in enumerate(HORIZONS):
        outcomes = rows.outcomes(horizon)
        for group in np.unique(rows.groups):
            others = ~np.isnan(outcomes) & (rows.groups != group)
            start, slope = _line(log_odds[others, column], outcomes[others], weights[others])
            held = rows.groups == group
            found[held, column] = 1.0 / (1.0 + np.exp(-start - slope * log_odds[held, column]))
    return found


def _line(
    log_odds: NDArray[np.float64], outcomes: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    shares = weights / weights.sum()

    def loss(line: NDArray[np.float64]) -> float:
        moved = line[0] + np.exp(line[1]) * log_odds
        return float(shares @ (np.logaddexp(0.0, moved) - outcomes * moved))

    start, logarithm = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(start), float(np.exp(logarithm))
