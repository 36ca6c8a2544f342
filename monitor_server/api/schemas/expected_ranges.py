"""The shape of expected ranges: the values of healthy runs, by signal."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema

__all__ = ["ExpectedRangeItem", "ExpectedRanges"]


class ExpectedRangeItem(Schema):
    """The range of one signal, in intervals of steps."""

    signal: str
    steps: list[int] = Field(description="Where the intervals begin, and where the last one ends")
    low: list[float] = Field(description="In each interval, 5 % of the values of healthy runs were below")
    high: list[float] = Field(description="In each interval, 5 % of the values of healthy runs were above")
    runs: int = Field(description="The smallest number of healthy runs that an interval rests on")


class ExpectedRanges(Schema):
    """The known ranges, and the calibration that has learnt them."""

    calibration: str
    items: list[ExpectedRangeItem]
