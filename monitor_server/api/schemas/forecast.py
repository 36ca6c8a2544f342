"""The forecast of a run."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema

__all__ = ["DriverItem", "ForecastItem", "HorizonItem"]


class HorizonItem(Schema):
    """The probability of a collapse within a number of recorded steps."""

    within: int
    probability: float
    base_rate: float = Field(description="The probability without any evidence")


class DriverItem(Schema):
    """One piece of evidence that raises the probability."""

    name: str
    description: str
    odds_ratio: float = Field(description="Factor on the odds of a collapse in 11 to 25 recorded steps")


class ForecastItem(Schema):
    """The forecast after the newest step that detection has processed."""

    step: int
    horizons: list[HorizonItem]
    drivers: list[DriverItem] = Field(description="The strongest evidence, the strongest first; empty: the base rate")
    model: str
    fitted_on: str
