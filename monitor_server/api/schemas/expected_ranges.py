"""The shape of expected ranges: the values of healthy runs, by signal."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema

__all__ = ["ExpectedRangeItem", "ExpectedRanges"]


class ExpectedRangeItem(Schema):
    """The range of one signal, in intervals of steps."""

    signal: str
    steps: list[int] = Field(description="The first step of each interval, and the end of the last one")
    low: list[float] = Field(
        description="For each interval, the value below which 5 % of the values of healthy runs were"
    )
    high: list[float] = Field(
        description="For each interval, the value above which 5 % of the values of healthy runs were"
    )
    runs: int = Field(description="Number of healthy runs of the interval that has the fewest")


class ExpectedRanges(Schema):
    """The known ranges, and the calibration that has learnt them."""

    calibration: str
    items: list[ExpectedRangeItem]
