"""The recorded collapse that an empty dashboard shows on request."""

import asyncio

from fastapi import APIRouter, Request, status

from monitor_server.access.audit.changes import commit_change
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.sample import PROJECT, SamplePlayer
from monitor_server.api.schemas import Schema

__all__ = ["router"]

router = APIRouter()


class SampleItem(Schema):
    """The run as which the recorded collapse is played."""

    run_id: str


@router.post("/sample", status_code=status.HTTP_202_ACCEPTED)
async def play_sample(request: Request, collector: Serving, asking: Asking) -> SampleItem:
    """Play the recorded collapse that comes with rlvitals as a run of project `samples`, in half a minute."""
    player: SamplePlayer = request.app.state.sample
    run_id = await player.start()
    now = collector.clock()
    await asyncio.to_thread(commit_change, collector.store, asking, "sample.play", run_id, now=now, project=PROJECT)
    return SampleItem(run_id=run_id)
