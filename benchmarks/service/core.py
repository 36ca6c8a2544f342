"""Ingest and projection of a store in this process, without HTTP, to measure the processor time of their parts."""

import time

import msgspec
import numpy as np

from benchmarks.healthy_signals import deviation, healthy_levels
from monitor_server.detection.engine import EngineFactory
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.validate import ValidBatch, read_batch
from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.store.database import Store
from trainer_hooks import wire

__all__ = ["Core"]


class Core:
    """One store with ingest and projector, called by hand."""

    def __init__(self, url: str) -> None:
        self.store = Store.open(url)
        self._settings = Settings(dashboard="")
        self._log = LogAppender(settings=self._settings, clock=time.time)
        self.projection = Projection(
            Tracker(EngineFactory()), settings=self._settings, clock=time.time, is_watched=lambda: False
        )
        self._random = np.random.default_rng(0)

    def batch(
        self, run: str, first: int, *, steps: int = 10, signals: int = 60, rank: int = 0, world_size: int = 1
    ) -> ValidBatch:
        """Return a valid batch of steps of a healthy run."""
        levels = healthy_levels(signals)
        means, deviations = list(levels.values()), [deviation(*each) for each in levels.items()]
        records = []
        for step in range(first, first + steps):
            values = self._random.normal(means, deviations).tolist()
            record = wire.Record(step=step, time=1e9 + 3.0 * step, scalars=dict(zip(levels, values, strict=True)))
            records.append(msgspec.Raw(wire.encode(record)))
        body = wire.encode(
            wire.Batch(schema_version=wire.SCHEMA_VERSION, run=run, records=records, rank=rank, world_size=world_size)
        )
        return read_batch(body, media_type=wire.MSGPACK, encoding="", settings=self._settings)

    def append(self, batches: list[ValidBatch]) -> None:
        """Append batches in one commit."""
        with self.store.write() as repositories:
            for batch in batches:
                self._log.append_deferred(repositories, batch)
            self._log.flush(repositories)

    def project(self, runs: list[str]) -> None:
        """Project all records of some runs, in turns."""
        left = [wire.run_id("default", run) for run in runs]
        while left:
            run_id = left.pop(0)
            done = self.projection.project(self.store, run_id)
            if done is not None and done.has_more:
                left.append(run_id)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
