"""Sampled responses of runs."""

from typing import Final

from dashboard.collector_client.answers import read_as
from dashboard.collector_client.http_requests import Query, Requests, item_path
from dashboard.collector_client.types.responses import ResponseItem, ResponsePairs

__all__ = ["Responses"]

MAX_RESPONSES: Final = 24  # token strips are slow to draw, and nobody reads more at once


class Responses:
    """Sampled responses of runs.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def newest(
        self,
        run_id: str,
        *,
        from_step: int | None = None,
        to_step: int | None = None,
        correct: bool | None = None,
        kind: str | None = None,
        limit: int = MAX_RESPONSES,
    ) -> list[ResponseItem]:
        """Read the newest sampled responses of a run.

        Args:
            run_id: The run.
            from_step: The first step, or None.
            to_step: The last step, or None.
            correct: Whether to read only correct or only incorrect responses; None for both.
            kind: The reason for their sampling, such as ``random``, or None for all.
            limit: The largest number of responses to read, 200 at most.
        """
        query = {"limit": limit} | _steps(from_step, to_step)
        if kind is not None:
            query["kind"] = kind
        if correct is not None:
            query["correct"] = str(correct).lower()
        answer = await self._requests.get(item_path("runs", run_id, "responses"), query)
        return read_as(list[ResponseItem], answer["items"])

    async def pairs(self, run_id: str, *, from_step: int | None, to_step: int | None) -> ResponsePairs:
        """Read displaced correct responses of some steps, each with the most similar incorrect response."""
        answer = await self._requests.get(item_path("runs", run_id, "response-pairs"), _steps(from_step, to_step))
        return read_as(ResponsePairs, answer)


def _steps(first: int | None, last: int | None) -> Query:
    return {name: step for name, step in (("from_step", first), ("to_step", last)) if step is not None}
