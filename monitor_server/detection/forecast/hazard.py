"""The hazard model: it turns evidence into probabilities of a collapse."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from operator import itemgetter

from monitor_server.detection.protocol import DriftInput, Forecast

__all__ = ["MODELS", "PERIODS", "HazardModel", "model_for"]

PERIODS = ((0, 10), (10, 25), (25, 50))  # rows from now: after the first, up to and including the second
RATIOS, LIKELIHOOD, METRICS = "ratios", "likelihood", "metrics"
DRIVERS, LEAST_RATIO = 3, 1.05  # the number of drivers that are named, and the smallest odds ratio of a driver


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardModel:
    """A discrete hazard over three periods, each with its own logistic regression on the evidence.

    With evidence x ≥ 0 the probability that a run which has lived to the beginning of period k collapses in it is
    hₖ = 1 / (1 + exp(−bₖ − Σᵢ wₖᵢ xᵢ)), and P(collapse by the end of period k) = 1 − Π_{j ≤ k} (1 − hⱼ). The weights
    are at least 0, so evidence only raises a probability, and each wₖᵢ xᵢ is the logarithm of an odds ratio. Without
    evidence P is the base rate.

    Attributes:
        name: ``ratios`` for runs that send a signal of the likelihood side and the likelihood ratios, ``likelihood``
            for runs with the former only, ``metrics`` for the others.
        fitted_on: The runs from which the weights come, in words.
        intercepts: bₖ of each period.
        weights: wₖᵢ of each period, by the name of the evidence; a name that is left out has the weight 0.
        base_rates: P at the end of each period without evidence.
        unaided: The forecast without evidence.
        weighs: Whether any evidence has a weight.

    Reference:
        Singer and Willett, "It's about time: using discrete-time survival analysis" (1993).
    """

    name: str
    fitted_on: str
    intercepts: Sequence[float]
    weights: Sequence[Mapping[str, float]]
    base_rates: tuple[float, ...] = field(init=False)
    unaided: Forecast = field(init=False, repr=False)
    weighs: bool = field(init=False, repr=False)
    _weighing: tuple[Mapping[str, float], ...] = field(init=False, repr=False)  # the weights above 0

    def __post_init__(self) -> None:
        """Compute the parts that all forecasts share: the base rates, and the forecast without evidence."""
        weighing = tuple({name: weight for name, weight in weights.items() if weight} for weights in self.weights)
        object.__setattr__(self, "_weighing", weighing)
        object.__setattr__(self, "weighs", any(weighing))
        object.__setattr__(self, "base_rates", self._probabilities({}))
        unaided = Forecast(probabilities=self.base_rates, base_rates=self.base_rates, drivers={}, model=self.name)
        object.__setattr__(self, "unaided", unaided)

    def forecast(self, evidence: Mapping[str, float]) -> Forecast:
        """Compute the forecast of a row.

        >>> model = HazardModel(name="metrics", fitted_on="-", intercepts=[-4.0] * 3, weights=[{"fall": 3.0}] * 3)
        >>> forecast = model.forecast({"fall": 1.0})
        >>> [round(p, 2) for p in forecast.probabilities], [round(p, 2) for p in forecast.base_rates], forecast.drivers
        ([0.27, 0.47, 0.61], [0.02, 0.04, 0.05], {'fall': 20.085536923187668})
        """
        if not evidence or not self.weighs:
            return self.unaided
        weights = self._weighing[1]
        ratios = [(name, math.exp(weights[name] * value)) for name, value in evidence.items() if name in weights]
        drivers = [each for each in ratios if each[1] >= LEAST_RATIO]
        if len(drivers) > 1:
            drivers = sorted(drivers, key=itemgetter(1), reverse=True)[:DRIVERS]
        return Forecast(
            probabilities=self._probabilities(evidence),
            base_rates=self.base_rates,
            drivers=dict(drivers),
            model=self.name,
        )

    def _probabilities(self, evidence: Mapping[str, float]) -> tuple[float, ...]:
        alive, found = 1.0, []
        for intercept, weights in zip(self.intercepts, self._weighing, strict=True):
            log_odds = intercept + sum([weights[name] * value for name, value in evidence.items() if name in weights])
            alive *= 1.0 / (1.0 + math.exp(log_odds))
            found.append(1.0 - alive)
        return tuple(found)


def _load_models() -> dict[str, HazardModel]:
    saved = json.loads(files(__package__).joinpath("coefficients.json").read_text())
    return {name: HazardModel(name=name, **model) for name, model in saved.items()}


MODELS = _load_models()


def model_for(drift_input: DriftInput, *, observes_ratios: bool) -> HazardModel:
    """Return the model for runs with the same observed signals as this run.

    Runs without ratios have a model of their own. A common model would treat a missing input like an input that shows
    no danger.
    """
    if drift_input not in {DriftInput.PAIRED, DriftInput.LIKELIHOOD}:
        return MODELS[METRICS]
    return MODELS[RATIOS if observes_ratios else LIKELIHOOD]
