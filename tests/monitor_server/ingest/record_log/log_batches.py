"""Batches that are appended to logs directly on a store."""

import json

from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from trainer_hooks import wire


def create_batch(clock, *steps, run="r", rank=0, **fields):
    records = [{"step": step, "scalars": {"a": 1.0}} for step in steps]
    body = {"schema_version": wire.SCHEMA_VERSION, "run": run, "rank": rank, "world_size": 2, "records": records}
    return read_batch(
        json.dumps(body | fields).encode(), media_type=wire.JSON, encoding="", settings=Settings(), now=clock.now
    )


def append(store, log, *batches):
    with store.write() as repositories:
        appended = [log.append_deferred(repositories, batch) for batch in batches]
        log.flush(repositories)
    return [(each.accepted, each.duplicates) for each in appended]
