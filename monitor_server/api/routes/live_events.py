"""`GET /api/v1/stream`: events as server-sent events, from the moment of the request."""

from collections.abc import AsyncIterator
from typing import Annotated

from anyio import BrokenResourceError
from fastapi import APIRouter, Depends, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from monitor_server.access.enforcement import ENFORCEMENT
from monitor_server.api.dependencies import Asking, Serving, client_address
from monitor_server.api.live_events.broadcast import Subscription

__all__ = ["router"]

router = APIRouter()


async def _subscribe(
    request: Request, collector: Serving, asking: Asking, run_id: str | None = None
) -> AsyncIterator[Subscription]:
    # This is a dependency, so that a subscription beyond the limit is answered with an error before the stream begins.
    with collector.broadcast.subscribe(
        run_id,
        project=asking.project,
        refusal=request.scope[ENFORCEMENT].rechecking(request.scope),
        client=asking.counted_as or client_address(request),
    ) as subscription:
        try:
            yield subscription
        except* BrokenResourceError:
            pass  # the client has gone, and FastAPI closed its stream while an event was on its way: this is no error


@router.get("/stream", response_class=EventSourceResponse)
async def stream(subscription: Annotated[Subscription, Depends(_subscribe)]) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of one run, or of all runs; an idle stream carries a comment every few seconds.

    When the caller has lost the permission, the event `ended` states the reason, and the stream ends.
    """
    # The first bytes show the client, and any proxy, that the stream is open: no later event is missed.
    yield ServerSentEvent(comment="listening")
    async for event in subscription:
        yield ServerSentEvent(event=event.kind, raw_data=event.data)
