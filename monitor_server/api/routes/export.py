"""Downloads of runs and projects."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Send

from monitor_server.access.enforcement import ENFORCEMENT
from monitor_server.api.dependencies import Asking, Collector, Serving
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.export.json_lines import export_jsonl
from monitor_server.api.export.parquet import export_parquet
from monitor_server.errors import CollectorError, KeyRequired, UnknownProject, UnknownRun
from monitor_server.http_server.read_limits import Turns
from monitor_server.text_safety.printable import printable

__all__ = ["router"]

log = logging.getLogger(__name__)

router = APIRouter()

Format = Annotated[Literal["jsonl", "parquet"], Query(alias="format", description="jsonl or parquet")]
MEDIA_TYPES = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
_FILE = {
    "description": "the file",
    "content": {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()},
}


async def _admit(collector: Serving, asking: Asking) -> AsyncIterator[None]:
    with collector.exports.admit(asking.counted_as):
        yield


# Until the file has been sent, or its reader has gone.
Admitted = Annotated[None, Depends(_admit)]


@router.get("/runs/{run_id}/export", response_class=StreamingResponse, responses={200: _FILE, **NOT_FOUND})
async def export_run(
    run_id: str, request: Request, collector: Serving, _admitted: Admitted, *, form: Format = "jsonl"
) -> StreamingResponse:
    """Download the steps, acknowledgements, phases and alerts of a run; `rlvitals check` and `replay` read the file."""

    def find() -> Sequence[str]:
        with collector.store.read() as reading:
            if not reading.runs.exists(run_id):
                raise UnknownRun.by_id(run_id)
        return [run_id]

    return await _file(collector, find, form, name=run_id, refusal=_refusal(request))


@router.get("/export", response_class=StreamingResponse, responses={200: _FILE, **NOT_FOUND})
async def export_project(
    project: str, request: Request, collector: Serving, _admitted: Admitted, *, form: Format = "jsonl"
) -> StreamingResponse:
    """Download all runs of a project in one file."""

    def find() -> Sequence[str]:
        now, deadlines = collector.clock(), collector.settings.deadlines
        with collector.store.read() as reading:
            found = reading.run_views.statuses(now=now, deadlines=deadlines, project=project)
        if not found:
            raise UnknownProject.by_name(project)
        return list(found)

    return await _file(collector, find, form, name="project", refusal=_refusal(request))


async def _file(
    collector: Collector, find: Callable[[], Sequence[str]], form: str, *, name: str, refusal: Callable[[], str | None]
) -> StreamingResponse:
    def begin() -> tuple[bytes, Iterator[bytes]]:
        parts = (export_parquet if form == "parquet" else export_jsonl)(collector.store, find())
        # What cannot begin is an error, and not a broken download. A run that was deleted meanwhile has no line.
        return next(parts, b""), parts

    first, others = await collector.exports.take_turn(begin)
    return _Download(
        _send_while_allowed(first, others, refusal, collector.exports),
        media_type=MEDIA_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}.{form}"'},
    )


def _refusal(request: Request) -> Callable[[], str | None]:
    """Return a function that gives the reason for which the sender of a request may not read further, or None."""
    refusal: Callable[[], str | None] = request.scope[ENFORCEMENT].rechecking(request.scope, is_stream=False)
    return refusal


async def _send_while_allowed(
    first: bytes, others: Iterator[bytes], refusal: Callable[[], str | None], exports: Turns
) -> AsyncIterator[bytes]:
    """Yield the parts of a file while its reader may have them.

    Raises:
        KeyRequired: If the reader has lost it.
    """
    yield first
    while (part := await exports.take_turn(lambda: next(others, None))) is not None:
        if (reason := refusal()) is not None:
            raise KeyRequired(reason)
        yield part


class _Download(StreamingResponse):
    """A file whose transfer breaks off after an error, so that a reader does not treat it as complete."""

    async def stream_response(self, send: Send) -> None:
        """Send the file; the server closes the connection of an incomplete answer."""
        try:
            await super().stream_response(send)
        except CollectorError as error:
            log.warning("a download has broken off: %s", printable(error))
