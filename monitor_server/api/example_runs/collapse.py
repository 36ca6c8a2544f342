"""Plays the recorded collapse that is part of rlvitals, as if its trainer sent it now."""

import asyncio
import contextlib
import logging
from importlib import resources

from monitor_server.api.running_collector.collector import Collector
from monitor_server.detection.protocol import Observation
from monitor_server.errors import CollectorError
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.ingest.recorded_batches import batches
from monitor_server.ingest.validation.validate import read_batch
from trainer_hooks import wire

__all__ = ["BATCH_SECONDS", "PROJECT", "SamplePlayer"]

log = logging.getLogger(__name__)

PROJECT, RUN = "samples", "recorded collapse"
STEPS_PER_BATCH = 3
BATCH_SECONDS = 0.25  # 12 steps a second: slow enough to watch, and the whole run takes less than half a minute


class SamplePlayer:
    """Plays the sample in the background, once at a time.

    Args:
        collector: The collector that receives the run.
        batch_seconds: The wait after each batch.
    """

    def __init__(self, collector: Collector, *, batch_seconds: float = BATCH_SECONDS) -> None:
        self._collector = collector
        self._batch_seconds = batch_seconds
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> str:
        """Begin to play, and return the id of the run; a run that was played to its end stays as it is."""
        run_id = wire.run_id(PROJECT, RUN)
        async with self._starting:
            if (self._task is None or self._task.done()) and not await asyncio.to_thread(self._is_played, run_id):
                self._task = asyncio.create_task(self._play())
        return run_id

    async def stop(self) -> None:
        """Stop playing, at the end of the collector."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _is_played(self, run_id: str) -> bool:
        settings = self._collector.settings
        with self._collector.store.read() as reading:
            run = reading.run_views.find(run_id, now=self._collector.clock(), deadlines=settings.deadlines)
        return run is not None and run["status"] == "finished"

    async def _play(self) -> None:
        try:
            steps = await asyncio.to_thread(_read_sample)
            # A run that was interrupted by the end of a collector is played again, like a trainer that was restarted.
            attempt = int(self._collector.clock())
            for batch in batches(steps, name=RUN, project=PROJECT, size=STEPS_PER_BATCH, attempt=attempt):
                valid = read_batch(
                    wire.encode(batch),
                    media_type=wire.MSGPACK,
                    encoding="",
                    settings=self._collector.settings,
                    now=self._collector.clock(),
                )
                await self._collector.appender.append(valid)
                await asyncio.sleep(self._batch_seconds)
        except CollectorError as error:
            log.warning("the recorded collapse was not played to its end: %s", error)
        except Exception:  # nobody waits for the result, and `stop` must not raise it
            log.exception("the recorded collapse was not played to its end")


def _read_sample() -> list[Observation]:
    with resources.as_file(resources.files("monitor_server.log_check") / "sample") as folder:
        (recorded,) = find_logs([folder], [])
        mapping = NameMapping({}, recorded.aliases, keep_unknown=True)
        return list(observe(recorded.read(ReadReport()), mapping.signals))
