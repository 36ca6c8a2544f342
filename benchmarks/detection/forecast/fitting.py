"""Fitting: one penalised logistic regression for each period, with weights of at least 0."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.detection.forecast.rows import NAMES, Rows
from monitor_server.detection.forecast.hazard import PERIODS, HazardModel

__all__ = ["as_json", "fit", "predict"]

LARGEST_WEIGHT = 8.0
INTERCEPTS = (-12.0, 2.0)


def fit(rows: Rows, *, name: str, fitted_on: str, penalty: float) -> HazardModel:
    """Fit the three periods of a hazard model.

    Rows of a unit weigh 1/√n each, with n the number of rows of the unit: neighbouring rows are alike, so a unit with
    many rows says more than one with few, but not in proportion.
    """
    counts = dict(zip(*np.unique(rows.units, return_counts=True), strict=True))
    row_weights = np.array([counts[unit] ** -0.5 for unit in rows.units])
    intercepts, weights = [], []
    for begin, end in PERIODS:
        outcomes = rows.outcomes(end)
        known = ~np.isnan(outcomes) & ~(rows.collapses & (rows.ahead <= begin))
        found = _regression(rows.evidence[known], outcomes[known], row_weights[known], penalty)
        intercepts.append(round(float(found[0]), 4))
        weights.append({n: round(float(w), 4) for n, w in zip(NAMES, found[1:], strict=True) if w >= 5e-5})  # noqa: PLR2004
    return HazardModel(name=name, fitted_on=fitted_on, intercepts=intercepts, weights=weights)


def predict(model: HazardModel, evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of the model for each row: one column for each period."""
    alive, columns = np.ones(len(evidence)), []
    for intercept, weights in zip(model.intercepts, model.weights, strict=True):
        log_odds = intercept + evidence @ np.array([weights.get(name, 0.0) for name in NAMES])
        alive = alive / (1.0 + np.exp(log_odds))
        columns.append(1.0 - alive)
    return np.stack(columns, axis=1)


def _regression(
    evidence: NDArray[np.float64], outcomes: NDArray[np.float64], weights: NDArray[np.float64], penalty: float
) -> Sequence[float]:
    design = np.concatenate([np.ones((len(evidence), 1)), evidence], axis=1)
    shares = weights / weights.sum()

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_odds = design @ found
        errors = shares * (1.0 / (1.0 + np.exp(-log_odds)) - outcomes)
        gradient = design.T @ errors
        gradient[1:] += 2.0 * penalty * found[1:]
        value = shares @ (np.logaddexp(0.0, log_odds) - outcomes * log_odds)
        return float(value + penalty * found[1:] @ found[1:]), gradient

    start = np.array([-4.0, *np.zeros(evidence.shape[1])])
    bounds = [INTERCEPTS, *[(0.0, LARGEST_WEIGHT)] * evidence.shape[1]]
    found: Sequence[float] = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return found


def as_json(model: HazardModel) -> dict[str, object]:
    """Return the values that the model is built from, except for its name, as JSON values."""
    given = [each.name for each in dataclasses.fields(model) if each.init and each.name != "name"]
    return {name: getattr(model, name) for name in given}
