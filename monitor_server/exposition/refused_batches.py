"""Counts the batches that are refused as a whole, by what has to be changed.

A refused batch reaches no store and no log, so that otherwise only the log of its trainer tells of it.
"""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.errors import ResourcesExhausted, SchemaVersionMismatch

__all__ = ["LATER", "RefusedBatches"]

LATER: Final = "later"
"""The reason of batches for which the collector had no room or no database; trainers send them again."""
REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.UNAUTHORIZED: "key",
    HTTPStatus.FORBIDDEN: "key",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "size",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "invalid",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "rate",
    HTTPStatus.INTERNAL_SERVER_ERROR: "error",
    HTTPStatus.SERVICE_UNAVAILABLE: LATER,
}
NOBODY_LISTENS: Final = 499


class RefusedBatches(Collector):
    """Refused batches by reason since the process began, counted on the event loop.

    The reasons are ``schema`` (a version of the schema that this collector does not read), ``key``, ``size``,
    ``invalid``, ``address`` (a host name or a path that is not served), ``rate`` (a key over its limits), ``error`` (a
    fault of the collector, or a limit of its threads or memory) and `LATER`.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(["schema", "address", *REASONS.values()], 0)

    def counts(self) -> dict[str, int]:
        """Return the number of batches of each reason."""
        return dict(self._counts)

    def collect(self) -> Iterable[Metric]:
        """Return one counter for each reason; a zero makes the first refusal an increase."""
        batches = CounterMetricFamily(
            "rlvitals_ingest_refused_batches", "Batches that were refused as a whole", labels=["reason"]
        )
        for reason, count in self._counts.items():
            batches.add_metric([reason], count)
        return [batches]

    def count_answers(self, app: ASGIApp, *, path: str) -> ASGIApp:
        """Return an application whose errors in answer to a POST at a path are counted."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            is_batch = scope["type"] == "http" and scope["path"] == path and scope["method"] == "POST"
            await app(scope, receive, self._counting(send) if is_batch else send)

        return serve

    def _counting(self, send: Send) -> Send:
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif status >= HTTPStatus.BAD_REQUEST and status != NOBODY_LISTENS:
                self._counts[_reason(status, message["body"])] += 1
                status = 0  # the rest of the body is no other answer
            await send(message)

        return sending


def _reason(status: int, body: bytes) -> str:
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and json.loads(body)["error"] == SchemaVersionMismatch.__name__:
        return "schema"
    if status == HTTPStatus.SERVICE_UNAVAILABLE and ResourcesExhausted.__name__.encode() in body:
        return "error"  # it lasts until a person raises a limit
    return REASONS.get(status, "error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "address")
