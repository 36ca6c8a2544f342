"""The tables of docs/forecast-results.md."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.forecast.rows import NAMES, Rows
from benchmarks.detection.forecast.scores import ACTS_AT, Score, score
from benchmarks.detection.results_page.tables import Section, Table, interval, percent
from monitor_server.detection.forecast.hazard import PERIODS, HazardModel
from monitor_server.detection.protocol import HORIZONS

__all__ = ["groups_table", "suite_scores", "suite_section", "variants_section", "weights_section"]

TARGET = 0.05  # the largest calibration error that is asked for


def suite_scores(rows: Rows, probabilities: NDArray[np.float64]) -> dict[int, Score]:
    """Return the scores of one suite by horizon."""
    return {
        horizon: score(probabilities[:, place], rows.outcomes(horizon), rows.units)
        for place, horizon in enumerate(HORIZONS)
    }


def suite_section(title: str, rows: Rows, scores: Mapping[int, Score]) -> Section:
    """Return the tables of one suite: its scores, and the numbers of its reliability diagram."""
    units, failing = len(np.unique(rows.units)), len(np.unique(rows.units[rows.collapses]))
    note = f"{len(rows.units):,} rows before the collapse, of {units} units, {failing} of them with a collapse."
    return Section(
        title=title,
        notes=[note],
        tables=[
            Table(title="Scores", header=_HEADER, rows=[_row(horizon, found) for horizon, found in scores.items()]),
            *(_reliability(horizon, found) for horizon, found in scores.items()),
        ],
    )


def groups_table(rows: Rows, probabilities: NDArray[np.float64], horizon: int) -> Table:
    """Return the scores at one horizon of each group that is left out together."""
    outcomes, column = rows.outcomes(horizon), HORIZONS.index(horizon)
    cells = []
    for group in np.unique(rows.groups):
        held = (rows.groups == group) & ~np.isnan(outcomes)
        if held.any():
            found = score(probabilities[held, column], outcomes[held], rows.units[held])
            forecast = percent(float(probabilities[held, column].mean()))
            calibration = f"{found.calibration_error:.4f}"
            cells.append([group, f"{found.rows:,}", forecast, percent(found.rate), f"{found.brier:.4f}", calibration])
    header = ("left out", "rows", "mean forecast", "collapse rate", "Brier score", "calibration error")
    return Table(title=f"Each experiment within {horizon} rows", header=header, rows=cells)


def variants_section(title: str, rows: Rows, variants: Mapping[str, NDArray[np.float64]]) -> Section:
    """Return the scores of several forecasts of the same rows: calibration error and gain at each horizon."""
    cells = []
    for name, probabilities in variants.items():
        found = [score(probabilities[:, k], rows.outcomes(h), rows.units) for k, h in enumerate(HORIZONS)]
        errors, gains = [f"{s.calibration_error:.4f}" for s in found], [f"{1000 * s.gain:.2f}" for s in found]
        cells.append([name, *errors, *gains])
    header = (
        "evidence and runs",
        *(f"calibration error within {h} rows" for h in HORIZONS),
        *(f"gain within {h} rows" for h in HORIZONS),
    )
    return Section(title=title, tables=[Table(title="Calibration error and gain", header=header, rows=cells)])


def weights_section(model: HazardModel) -> Section:
    """Return the weights of a model, as they are added to the log-odds for one unit of the evidence."""
    header = ("added to the log-odds for one unit", *(f"rows {begin + 1} to {end}" for begin, end in PERIODS))
    base = ["base rate of the period", *(percent(1.0 / (1.0 + np.exp(-b))) for b in model.intercepts)]
    rows = [[name, *(f"{weights.get(name, 0.0):.2f}" for weights in model.weights)] for name in NAMES]
    table = Table(title=f"{model.name}, fitted on {model.fitted_on}", header=header, rows=[base, *rows])
    return Section(title=f"Weights: {model.name}", tables=[table])


_HEADER = (
    "within",
    "rows",
    "collapse rate",
    "Brier score",
    "of the rate",
    "gain, in parts per thousand",
    "95 %",
    "calibration error",
    "95 %",
    f"≤ {TARGET:g}",
    f"net benefit at {ACTS_AT:.0%}, per thousand",
    "95 %",
)


def _row(horizon: int, found: Score) -> list[str]:
    return [
        f"{horizon} rows",
        f"{found.rows:,}",
        percent(found.rate),
        f"{found.brier:.4f}",
        f"{found.brier + found.gain:.4f}",
        f"{1000 * found.gain:.2f}",
        interval((1000 * found.gain_interval[0], 1000 * found.gain_interval[1]), digits=2),
        f"{found.calibration_error:.4f}",
        interval(found.calibration_interval, digits=4),
        _reached(found.calibration_interval),
        f"{1000 * found.net_benefit:.2f}",
        interval((1000 * found.net_benefit_interval[0], 1000 * found.net_benefit_interval[1]), digits=2),
    ]


def _reached(bounds: tuple[float, float]) -> str:
    """Return whether the target holds: only if the whole interval is below it."""
    low, high = bounds
    return "yes" if high <= TARGET else "NO" if low > TARGET else "not certain"


def _reliability(horizon: int, found: Score) -> Table:
    rows = [[percent(b.forecast), percent(b.observed), f"{b.rows:,}"] for b in found.bins]
    return Table(title=f"Reliability within {horizon} rows", header=("forecast", "collapsed", "rows"), rows=rows)
