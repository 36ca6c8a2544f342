"""Recorded runs that the dashboard shows on request: a collapse, and an ablation to compare."""

import asyncio

from fastapi import APIRouter, Request, status

from monitor_server.access.audit.entries import commit_change
from monitor_server.api.dependencies import Asking, Serving
from monitor_server.api.example_runs.ablation import store_ablation
from monitor_server.api.example_runs.collapse import PROJECT, SamplePlayer
from monitor_server.api.schemas import Schema

__all__ = ["router"]

router = APIRouter()


class SampleItem(Schema):
    """The run in which the recorded collapse is played."""

    run_id: str


class SampleRuns(Schema):
    """The runs in which the recorded ablation is stored, with their last steps, at which their charts are complete."""

    last_steps: dict[str, int]


@router.post("/sample", status_code=status.HTTP_202_ACCEPTED)
async def play_sample(request: Request, collector: Serving, asking: Asking) -> SampleItem:
    """Play the recorded collapse that is part of rlvitals as a run of project `samples`, in half a minute."""
    player: SamplePlayer = request.app.state.sample
    run_id = await player.start()
    now = collector.clock()
    await asyncio.to_thread(commit_change, collector.store, asking, "sample.play", run_id, now=now, project=PROJECT)
    return SampleItem(run_id=run_id)


@router.post("/sample/ablation")
async def add_ablation(collector: Serving, asking: Asking) -> SampleRuns:
    """Store the recorded ablation of λ that is part of rlvitals as six runs of project `samples`, two seeds each."""
    last_steps = await store_ablation(collector)
    now = collector.clock()
    await asyncio.to_thread(commit_change, collector.store, asking, "sample.play", "ablation", now=now, project=PROJECT)
    return SampleRuns(last_steps=last_steps)
