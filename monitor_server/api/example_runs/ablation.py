"""Stores the recorded runs of an ablation that are part of rlvitals, as an example for the comparison of runs.

They are runs of the preset `stubborn` of docs/experiments, which states how they were made: two seeds each without LLDS
and with λ = 0.01 and 0.1. They contain the signals that the comparison needs.
"""

import asyncio
from collections.abc import Iterator
from importlib import resources
from typing import Final

import msgspec

from monitor_server.api.example_runs.collapse import PROJECT
from monitor_server.api.running_collector.collector import Collector
from monitor_server.detection.protocol import Observation
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.ingest.recorded_batches import batches
from monitor_server.ingest.validation.validate import read_batch
from trainer_hooks import wire

__all__ = ["store_ablation"]

STEPS_PER_BATCH: Final = 100
ATTEMPT: Final = 1  # always the same, so that stored batches are duplicates


async def store_ablation(collector: Collector) -> dict[str, int]:
    """Store the runs, and return their last steps by id, in the order of λ and seed; stored runs stay as they are.

    Raises:
        CollectorError: If the collector does not accept them, for example because its limit of runs is reached.
    """
    recorded = await asyncio.to_thread(lambda: list(_read()))
    return {await _store(collector, name, steps): steps[-1].step for name, steps in recorded}


async def _store(collector: Collector, name: str, steps: list[Observation]) -> str:
    strength, seed = name.removeprefix("lambda-").split("-seed")
    config = {"lambda": float(strength), "seed": int(seed), "preset": "stubborn"}
    for batch in batches(steps, name=name, project=PROJECT, size=STEPS_PER_BATCH, attempt=ATTEMPT):
        valid = read_batch(
            wire.encode(msgspec.structs.replace(batch, config=config)),
            media_type=wire.MSGPACK,
            encoding="",
            settings=collector.settings,
            now=collector.clock(),
        )
        await collector.appender.append(valid)
    return wire.run_id(PROJECT, name)


def _read() -> Iterator[tuple[str, list[Observation]]]:
    with resources.as_file(resources.files("monitor_server.log_check") / "ablation") as folder:
        for recorded in sorted(find_logs([folder], []), key=lambda log: log.name):
            mapping = NameMapping({}, recorded.aliases, keep_unknown=True)
            yield recorded.name, list(observe(recorded.read(ReadReport()), mapping.signals))
