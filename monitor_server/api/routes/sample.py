"""The recorded collapse that an empty dashboard shows on request."""

from fastapi import APIRouter, Request, status

from monitor_server.api.sample import SamplePlayer
from monitor_server.api.schemas import Schema

__all__ = ["router"]

router = APIRouter()


class SampleItem(Schema):
    """The run as which the recorded collapse is played."""

    run_id: str


@router.post("/sample", status_code=status.HTTP_202_ACCEPTED)
async def play_sample(request: Request) -> SampleItem:
    """Play the recorded collapse that comes with rlvitals as a run of project `samples`, in half a minute."""
    player: SamplePlayer = request.app.state.sample
    return SampleItem(run_id=await player.start())
