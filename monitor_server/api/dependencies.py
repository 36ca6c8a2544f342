"""What routes are given: the collector behind the application, and a read transaction."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query, Request

from monitor_server.api.collector import Collector
from monitor_server.errors import InvalidField
from monitor_server.store.repositories import Repositories

__all__ = ["Cursor", "Limit", "Reading", "Serving"]


def _collector(request: Request) -> Collector:
    collector: Collector = request.app.state.collector
    return collector


def _reading(request: Request) -> Iterator[Repositories]:
    with _collector(request).store.read() as repositories:
        yield repositories


def _cursor(cursor: Annotated[str | None, Query(description="`next` of the part before")] = None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):  # noqa: PLR2004 - fits 63 bits
        raise InvalidField(f"cursor must be the `next` of an earlier answer, got {cursor[:40]!r}")
    return int(cursor)


Serving = Annotated[Collector, Depends(_collector)]
Reading = Annotated[Repositories, Depends(_reading)]
Cursor = Annotated[int | None, Depends(_cursor)]
Limit = Annotated[int, Query(ge=1, le=1000, description="Most items in one answer")]
