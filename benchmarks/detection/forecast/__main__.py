"""``python -m benchmarks.detection.forecast MODEL``: fits a model, scores it, and writes weights and tables."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.authored.suite import DEVELOPMENT_SEEDS, TEST_SEEDS
from benchmarks.detection.forecast.fitting import as_json, fit, predict
from benchmarks.detection.forecast.reliability import diagram
from benchmarks.detection.forecast.report import (
    groups_table,
    suite_scores,
    suite_section,
    variants_section,
    weights_section,
)
from benchmarks.detection.forecast.rows import Rows, authored_rows, induced_rows, real_rows, recorded_rows
from benchmarks.detection.forecast.scores import score
from benchmarks.detection.induced.record import RECORDINGS as INDUCED
from benchmarks.detection.results_page.blocks import Picture, write_blocks
from benchmarks.detection.results_page.tables import Section, as_text
from benchmarks.writing import write_whole
from monitor_server.detection.forecast import hazard
from monitor_server.detection.forecast.hazard import HazardModel
from monitor_server.detection.protocol import HORIZONS

COEFFICIENTS = Path(hazard.__file__).with_name("coefficients.json")
RECORDINGS = Path(__file__).parents[3] / "docs"
LIKELIHOOD_PENALTY = 1e-5
# Real logs hold few failures, most of them from one repository. This penalty was chosen among 1e-5, 3e-4, 3e-3 and 1e-2
# by the Brier score at 50 rows with one repository left out.
METRICS_PENALTY = 3e-4
NO_GAIN = """The gain at the longest horizon is not above 0 with 95 % confidence, so the evidence is left out: a run
that sends no likelihood gets the base rate of the real logs, whatever happens in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, score, print, and write the requested files."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    if options.model == hazard.LIKELIHOOD:
        models, sections, pictures = _score_likelihood(options)
    elif options.corpus:
        models, sections, pictures = _score_metrics(options)
    else:
        sys.stderr.write("the model of real logs needs --corpus: name a folder of labelled logs\n")
        return 2
    sys.stdout.write(as_text(sections))
    if options.weights:
        kept = json.loads(COEFFICIENTS.read_text()) | {model.name: as_json(model) for model in models}
        write_whole(COEFFICIENTS, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    if options.write:
        command = " ".join(["python -m benchmarks.detection.forecast", *given])
        order = (hazard.LIKELIHOOD, hazard.METRICS)
        found = {options.model: sections}
        write_blocks(options.write, command, found, order=order, pictures={options.model: pictures})
    return 0


def _score_likelihood(options: argparse.Namespace) -> tuple[list[HazardModel], list[Section], list[Picture]]:
    """Fit and score the two models of runs with likelihoods, with and without ratios, each on its rows."""
    developed = DEVELOPMENT_SEEDS[options.first : options.first + options.seeds]
    authored = authored_rows(developed, workers=options.workers)
    recorded = recorded_rows(RECORDINGS)
    tested = authored_rows(TEST_SEEDS[options.first : options.first + options.test_seeds], workers=options.workers)
    every, hidden = Rows.join([authored, recorded]), recorded.without_ratios()
    without, with_ratios = _fit_likelihood(every), _fit_ratios(every)
    unaided = _left_out(hidden, lambda others: _fit_likelihood(Rows.join([authored, others])))
    left_out_ratios = _left_out(recorded, lambda others: _fit_ratios(Rows.join([authored, others])))
    left_out = np.where(recorded.has_ratios[:, None], left_out_ratios, unaided)
    induced = induced_rows(INDUCED, workers=options.workers)
    section_a, picture_a = _suite(
        "a", "Suite A: authored runs, other seeds", tested, _as_observed(tested, with_ratios, without)
    )
    section_b, picture_b = _suite("b", "Suite B: recorded runs, one experiment left out", recorded, left_out)
    section_d, picture_d = _suite(
        "d", "Suite D: failures induced in TRL, by its hooks", induced, _as_observed(induced, with_ratios, without)
    )
    variants = {
        "without ratio_rise; fitted on authored and recorded runs (shipped where ratio/p999 is missing)": unaided,
        "without ratio_rise; fitted on recorded runs only": _left_out(hidden, _fit_likelihood),
        "with ratio_rise; fitted on recorded runs only (shipped)": left_out,
    }
    sections = [
        section_a,
        dataclasses.replace(section_b, tables=[*section_b.tables, groups_table(recorded, left_out, HORIZONS[-1])]),
        variants_section("Suite B by what is observed and fitted on", recorded, variants),
        section_d,
        weights_section(without),
        weights_section(with_ratios),
    ]
    return [without, with_ratios], sections, [picture_a, picture_b, picture_d]


def _suite(name: str, title: str, rows: Rows, probabilities: NDArray[np.float64]) -> tuple[Section, Picture]:
    """Return the tables of one suite and its reliability diagram."""
    scores = suite_scores(rows, probabilities)
    shown = f"{title.partition(':')[0]}: reliability of the forecast"
    return suite_section(title, rows, scores), Picture(name=name, text=shown, svg=diagram(shown, scores))


def _score_metrics(options: argparse.Namespace) -> tuple[list[HazardModel], list[Section], list[Picture]]:
    """Fit and score the model of real logs; without a proven gain it keeps the base rate and no weights."""
    rows = real_rows(options.corpus, workers=options.workers)
    tried, left_out = _fit_metrics(rows), _left_out(rows, _fit_metrics)
    last = len(HORIZONS) - 1
    found = score(left_out[:, last], rows.outcomes(HORIZONS[last]), rows.units)
    model = tried if found.gain_interval[0] > 0.0 else _fit_metrics(rows.without_evidence())
    section, picture = _suite("c", "Suite C: real logs, one repository left out, with evidence", rows, left_out)
    sections = [
        section,
        weights_section(tried),
        *(
            []
            if model is tried
            else [Section(title="What is shipped for real logs", notes=[NO_GAIN]), weights_section(model)]
        ),
    ]
    return [model], sections, [picture]


def _fit_likelihood(rows: Rows) -> HazardModel:
    """Fit the model of runs without ratios on all rows, as if no run sent ratios."""
    authored = sum(unit.split("/")[0] in {"benign", "displacement", "failure"} for unit in np.unique(rows.units))
    recorded = len(np.unique(rows.units)) - authored
    fitted_on = f"{authored} authored and {recorded} recorded runs"
    return fit(rows.without_ratios(), name=hazard.LIKELIHOOD, fitted_on=fitted_on, penalty=LIKELIHOOD_PENALTY)


def _fit_ratios(rows: Rows) -> HazardModel:
    """Fit the model of runs with ratios on the rows that have them; authored runs send only the largest ratio."""
    observed = rows.take(rows.has_ratios)
    fitted_on = f"{len(np.unique(observed.units))} recorded runs"
    return fit(observed, name=hazard.RATIOS, fitted_on=fitted_on, penalty=LIKELIHOOD_PENALTY)


def _as_observed(rows: Rows, with_ratios: HazardModel, without: HazardModel) -> NDArray[np.float64]:
    """Return the probabilities of each row from the model that the forecaster asks there."""
    return np.where(rows.has_ratios[:, None], predict(with_ratios, rows.evidence), predict(without, rows.evidence))


def _fit_metrics(rows: Rows) -> HazardModel:
    fitted_on = f"real logs of {len(np.unique(rows.groups))} repositories"
    return fit(rows, name=hazard.METRICS, fitted_on=fitted_on, penalty=METRICS_PENALTY)


def _left_out(rows: Rows, fit_others: Callable[[Rows], HazardModel]) -> NDArray[np.float64]:
    """Return the probabilities of each group from a model that was fitted on all others."""
    found = np.empty((len(rows.groups), len(hazard.PERIODS)))
    for group in np.unique(rows.groups):
        held = rows.groups == group
        found[held] = predict(fit_others(rows.take(~held)), rows.evidence[held])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.forecast", description=__doc__)
    parser.add_argument("model", choices=(hazard.LIKELIHOOD, hazard.METRICS), help="which model to fit and score")
    parser.add_argument("--corpus", type=Path, action="append", help="a folder of labelled real logs; repeatable")
    parser.add_argument("--seeds", type=int, default=8, help="authored seeds to fit on, each with every kind of run")
    parser.add_argument("--test-seeds", type=int, default=8, help="authored seeds to score on")
    parser.add_argument("--first", type=int, default=3000, help="authored seeds to pass over")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--weights", action="store_true", help=f"write the weights to {COEFFICIENTS.name}")
    parser.add_argument("--write", type=Path, help="write the tables between the marks of this page")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
