"""The forecast of a run: how probable a collapse is, and what raises the probability."""

from collections.abc import Mapping, Sequence

import msgspec
from fastapi import APIRouter

from monitor_server.api.dependencies import Reading, require_run
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.schemas import DriverItem, ForecastItem, HorizonItem
from monitor_server.detection.forecast.evidence import EVIDENCE
from monitor_server.detection.forecast.hazard import MODELS
from monitor_server.detection.protocol import HORIZONS

__all__ = ["router"]

router = APIRouter(prefix="/runs")


class _SavedForecast(msgspec.Struct, frozen=True):
    probabilities: Sequence[float]
    base_rates: Sequence[float]
    drivers: Mapping[str, float]
    model: str


class _SavedState(msgspec.Struct, frozen=True):
    """The part of a saved engine state that holds the forecast; states of older versions have none."""

    forecast: _SavedForecast | None = None


_DECODER = msgspec.msgpack.Decoder(_SavedState)


@router.get("/{run_id}/forecast", responses=NOT_FOUND)
def forecast(run_id: str, reading: Reading) -> ForecastItem | None:
    """Return the probability of a collapse within the next 10, 25 and 50 recorded steps, and what raises it.

    The answer is null before the first step, and once the run has collapsed.
    """
    require_run(reading, run_id)
    saved = reading.detector_states.load(run_id)
    found = None if saved is None else _DECODER.decode(saved.state).forecast
    if saved is None or found is None:
        return None
    return ForecastItem(
        step=saved.step,
        horizons=[
            HorizonItem(within=within, probability=probability, base_rate=base_rate)
            for within, probability, base_rate in zip(HORIZONS, found.probabilities, found.base_rates, strict=True)
        ],
        drivers=[
            DriverItem(name=name, description=EVIDENCE.get(name, name), odds_ratio=ratio)
            for name, ratio in found.drivers.items()
        ],
        model=found.model,
        fitted_on=MODELS[found.model].fitted_on if found.model in MODELS else "",
    )
