"""`GET /api/v1/status`: a collector's state for operators, `rlvitals doctor` and scripts."""

import time
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, FiniteFloat

from monitor_server.api.dependencies import Reading, Serving
from monitor_server.api.schemas import Schema, Time
from monitor_server.durations import DAY_SECONDS
from monitor_server.retention.limits import list_limits
from monitor_server.store.repositories.api_keys import StoredKey

__all__ = ["router"]

router = APIRouter()

EXPIRY_NOTICE_SECONDS = 14 * DAY_SECONDS


class DatabaseStatus(Schema):
    """The database of a collector; ``free_bytes`` is null if it is on another machine."""

    kind: str
    server_version: str
    schema_version: str | None
    size_bytes: int
    free_bytes: int | None


class KeyStatus(Schema):
    """The number of keys, and the keys that end within 14 days."""

    valid: int
    expiring: list[str]


class RetentionStatus(Schema):
    """The retention limits in force; null: without limit (docs/operations.md)."""

    record_steps: int | None
    record_days: FiniteFloat | None
    response_steps: int
    response_days: FiniteFloat | None
    step_days: FiniteFloat | None
    thinned_steps: int
    run_days: FiniteFloat | None
    audit_days: FiniteFloat


class CollectorStatus(Schema):
    """The state of one collector process and of its database.

    ``sdk_versions`` counts the batches of each version of the SDK since the process began; an empty text stands for
    clients that do not state one. ``refused_batches`` counts the batches that were refused as a whole, by the reason
    (docs/runbooks/rlvitalsbatchesrefused.md). ``rules_file_problem`` states why the newest version of the file of
    rules is not in force, if so. ``clock_offset_seconds`` is how far the collector's own clock, which no
    jump moves, is ahead of the machine's.
    """

    version: str
    role: str
    time: Annotated[Time, Field(description="The machine's clock, in seconds since the epoch")]
    clock_offset_seconds: FiniteFloat
    database: DatabaseStatus
    unprojected_records: int
    quarantined_runs: int
    failing_channels: list[str]
    notifications_problem: str | None
    rules_file_problem: str | None
    keys: KeyStatus
    retention: RetentionStatus
    sdk_versions: dict[str, int]
    refused_batches: dict[str, int]


@router.get("/status")
def status(collector: Serving, reading: Reading) -> CollectorStatus:
    """Return versions, database, clock, backlog, keys and the versions of the SDK that were seen."""
    wall, now = time.time(), collector.clock()
    state = reading.database_state(free_bytes=collector.store.free_bytes)
    # The sessions of persons are left out: they end after hours, and the person signs in again.
    keys = [key for key in reading.api_keys.all() if key.is_valid(now) and key.subject is None]
    return CollectorStatus(
        version=version("rlvitals"),
        role=collector.settings.role,
        time=wall,
        clock_offset_seconds=now - wall,
        database=DatabaseStatus(**{name: getattr(state, name) for name in DatabaseStatus.model_fields}),
        unprojected_records=reading.projection_queue.unprojected_entries(),
        quarantined_runs=len(reading.projection_queue.quarantined_runs()),
        failing_channels=sorted(collector.failing_channels(reading)),
        notifications_problem=None if collector.notifications is None else collector.notifications.problem or None,
        rules_file_problem=None if collector.rule_file is None else collector.rule_file.problem,
        keys=KeyStatus(valid=len(keys), expiring=[key.name for key in keys if _expires_soon(key, now)]),
        retention=RetentionStatus.model_validate(
            {limit.name: limit.value for limit in list_limits(reading, collector.settings)}
        ),
        sdk_versions=collector.exposition.sdk_versions.counts(),
        refused_batches=collector.exposition.refused_batches.counts(),
    )


def _expires_soon(key: StoredKey, now: float) -> bool:
    return key.expires_at is not None and key.expires_at - now < EXPIRY_NOTICE_SECONDS
