"""Results of another thread reach the futures of the event loop, however they end."""

import asyncio
from concurrent.futures import Future

import pytest

from monitor_server.ingest.deliveries import Deliveries


def test_results_and_errors_of_a_thread_arrive_each_at_its_future():
    """A result, an error and a cancellation, which another thread makes one after the other."""
    deliveries = Deliveries()

    async def wait():
        futures = [Future() for _ in range(3)]
        waited = [deliveries.wait(future) for future in futures]

        def end():
            futures[0].set_result("stored")
            futures[1].set_exception(ValueError("refused"))
            futures[2].cancel()
            futures[2].set_running_or_notify_cancel()

        await asyncio.to_thread(end)
        return await asyncio.gather(*waited, return_exceptions=True)

    result, error, cancelled = asyncio.run(wait())
    assert result == "stored"
    assert isinstance(error, ValueError)
    assert isinstance(cancelled, asyncio.CancelledError)


def test_results_that_are_ready_together_wake_the_loop_once(monkeypatch):
    """Eight results of one commit cost one call into the loop, and the ninth, which comes later, another one."""
    deliveries, wakes = Deliveries(), []

    async def wait():
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: wakes.append(call) or wake(call))
        futures = [Future() for _ in range(9)]
        waited = [deliveries.wait(future) for future in futures]
        for place, future in enumerate(futures[:8]):
            future.set_result(place)
        found = await asyncio.gather(*waited[:8])
        futures[8].set_result(8)
        return [*found, await waited[8]]

    assert asyncio.run(wait()) == list(range(9))
    assert len(wakes) == 2


def test_a_request_that_is_cancelled_cancels_its_job_and_nothing_else():
    """The cancelled job is not begun; the job beside it is answered."""
    deliveries = Deliveries()

    async def wait():
        job, kept = Future(), Future()
        waited, other = deliveries.wait(job), deliveries.wait(kept)
        waited.cancel()
        await asyncio.sleep(0)
        assert not job.set_running_or_notify_cancel()
        kept.set_result("stored")
        with pytest.raises(asyncio.CancelledError):
            await waited
        return await other

    assert asyncio.run(wait()) == "stored"


def test_a_result_that_comes_after_the_loop_is_closed_is_dropped():
    """The writer may end its last commit when nobody is left to be answered."""
    deliveries, job = Deliveries(), Future()

    async def ask():
        deliveries.wait(job)

    asyncio.run(ask())
    job.set_result("stored")
    assert job.done()
