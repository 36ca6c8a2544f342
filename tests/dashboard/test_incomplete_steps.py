"""The page of a run says which share of the ranks an incomplete step has."""

import asyncio

from dashboard.pages.run.page_data import read_run
from tests.live import eventually


class StepClock:
    """A clock of the collector that moves by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        """Return the time."""
        return self.now


def test_the_run_page_shows_the_share_of_the_ranks_of_a_step_that_was_not_completed(start_collector, texts):
    """Both ranks report step 0, and one of them step 1: when its deadline has passed, the page says so."""
    clock = StepClock()
    live = start_collector(clock=clock, tick_seconds=0.05, step_deadline_seconds=60)
    run = {"run": "r", "project": "p", "world_size": 2}
    run_id = live.run(**run, records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    live.send(**run, rank=1, records=[{"step": 0}])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 0)
    assert not any("ranks seen" in text for text in texts(asyncio.run(read_run(live.url, run_id)).header()))
    live.send(**run, records=[{"step": 1, "scalars": {"reward/mean": 0.5}}])
    clock.now += 60
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 1)
    assert "50 % of 2 ranks seen at step 1" in texts(asyncio.run(read_run(live.url, run_id)).header())
