"""The recorded collapse that an empty dashboard shows on request."""

import asyncio

from fastapi import APIRouter, Request, status

from monitor_server.access.keys.administration import record_change
from monitor_server.api.dependencies import Asking, Collector, Serving
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
    await asyncio.to_thread(_record, collector, asking, run_id)
    return SampleItem(run_id=run_id)


def _record(collector: Collector, asking: Asking, run_id: str) -> None:
    with collector.store.write() as repositories:
        record_change(repositories, asking, "sample.play", run_id, now=collector.clock(), project=PROJECT)
