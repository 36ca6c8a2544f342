"""The shapes of the answers about the collector's health."""

from typing import Literal

from monitor_server.api.schemas.base import Schema

__all__ = ["Health", "Readiness"]


class Health(Schema):
    """The answer of a health check that passes."""

    status: Literal["ok"] = "ok"


class Readiness(Health):
    """The collector stores and processes batches; ``quarantined_runs`` cannot be processed, and are only stored.

    ``failing_channels`` of notifications do not accept their messages. Both are null for a caller who may not read all
    projects.
    """

    quarantined_runs: int | None
    failing_channels: int | None
