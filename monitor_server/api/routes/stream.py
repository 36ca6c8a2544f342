"""`GET /api/v1/stream`: events as server-sent events, from the moment of the request."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse, ServerSentEvent

from monitor_server.api.dependencies import Serving

__all__ = ["router"]

router = APIRouter()


@router.get("/stream", response_class=EventSourceResponse)
async def stream(collector: Serving, run_id: str | None = None) -> AsyncIterator[ServerSentEvent]:
    """Stream the events of one run, or of all runs; an idle stream carries a comment every few seconds."""
    with collector.broadcast.subscribe(run_id) as subscription:
        # The first bytes show the client, and any proxy, that the stream is open: no event is missed from here on.
        yield ServerSentEvent(comment="listening")
        async for event in subscription:
            yield ServerSentEvent(event=event.kind, raw_data=event.data)
