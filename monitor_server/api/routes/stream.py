"""`GET /api/v1/stream`: what happens, as server-sent events, from the moment of asking."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse, ServerSentEvent

from monitor_server.api.dependencies import Serving

__all__ = ["router"]

router = APIRouter()


@router.get("/stream", response_class=EventSourceResponse)
async def stream(collector: Serving, run_id: str | None = None) -> AsyncIterator[ServerSentEvent]:
    """Give events of one run, or of all; idle streams carry a comment every few seconds."""
    with collector.broadcast.subscribe(run_id) as subscription:
        # The first bytes tell the client, and any proxy, that the stream is open: nothing is missed from here on.
        yield ServerSentEvent(comment="listening")
        async for event in subscription:
            yield ServerSentEvent(event=event.kind, raw_data=event.data)
