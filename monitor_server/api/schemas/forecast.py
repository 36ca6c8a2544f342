"""The forecast of a run, and how it is read from the stored state of detection."""

from collections.abc import Mapping, Sequence

import msgspec
from pydantic import Field, FiniteFloat

from monitor_server.api.schemas.base import Schema
from monitor_server.api.schemas.saved_detection import decode_part
from monitor_server.detection.forecast.evidence import EVIDENCE
from monitor_server.detection.forecast.hazard import MODELS
from monitor_server.detection.protocol import HORIZONS

__all__ = ["DriverItem", "ForecastItem", "HorizonItem", "forecast_item"]


class HorizonItem(Schema):
    """The probability of a collapse within a number of recorded steps."""

    within: int
    probability: FiniteFloat
    base_rate: FiniteFloat = Field(description="The probability without any evidence")


class DriverItem(Schema):
    """One piece of evidence that raises the probability."""

    name: str
    description: str
    odds_ratio: FiniteFloat = Field(
        description="Factor by which the evidence raises the odds of a collapse in 11 to 25 recorded steps"
    )


class ForecastItem(Schema):
    """The forecast after the newest step that detection has processed."""

    step: int
    horizons: list[HorizonItem]
    drivers: list[DriverItem] = Field(
        description="The strongest evidence, in descending order; if empty, the probability is the base rate"
    )
    model: str
    fitted_on: str


class _SavedForecast(msgspec.Struct, frozen=True):
    probabilities: Sequence[float]
    base_rates: Sequence[float]
    drivers: Mapping[str, float]
    model: str


class _SavedForecastState(msgspec.Struct, frozen=True):
    """The part of a saved engine state with the forecast; states of older versions have none."""

    forecast: _SavedForecast | None = None


_DECODER = msgspec.msgpack.Decoder(_SavedForecastState)


def forecast_item(step: int, state: bytes) -> ForecastItem | None:
    """Read the forecast from the saved state of detection; return None if the state has none, or is damaged.

    Args:
        step: The newest step that the detection has processed.
        state: The state after that step, as msgpack.
    """
    saved = decode_part(_DECODER, state)
    if saved is None or saved.forecast is None:
        return None
    found = saved.forecast
    return ForecastItem(
        step=step,
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
