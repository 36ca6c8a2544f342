"""`POST /api/v1/ingest`: stores one batch and returns its receipt after the commit."""

import asyncio
from time import perf_counter
from typing import Any

from fastapi import APIRouter, Request, Response

from monitor_server.access.callers import Caller
from monitor_server.access.enforcement import CALLER
from monitor_server.alerts.collector_alerts import PROJECT, RUN, RUN_ID
from monitor_server.api.dependencies import Serving
from monitor_server.api.error_handlers import BODY_REFUSALS
from monitor_server.errors import InvalidField, ScopeTooSmall, UnsupportedMediaType
from monitor_server.ingest.validation.decode import is_small
from monitor_server.ingest.validation.validate import ValidBatch, read_any_batch, read_known_batch
from trainer_hooks import wire

__all__ = ["router"]

router = APIRouter()

_BATCH = {
    "type": "object",
    "description": "a Batch of trainer_hooks.wire, which is described in docs/api.md",
    "required": ["schema_version", "run"],
    "properties": {"schema_version": {"enum": list(wire.READABLE_VERSIONS)}, "run": {"type": "string", "minLength": 1}},
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            wire.JSON: {"schema": _BATCH},
            wire.MSGPACK: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
_RECEIPT = {
    wire.JSON: {"schema": {"type": "object", "description": "a Receipt of trainer_hooks.wire"}},
    wire.MSGPACK: {"schema": {"type": "string", "format": "binary"}},
}


@router.post(
    "/ingest",
    response_class=Response,
    openapi_extra=_BODY,
    responses={
        200: {"content": _RECEIPT, "description": "a Receipt, in the media type of the request"},
        **BODY_REFUSALS,
    },
)
async def ingest(request: Request, collector: Serving) -> Response:
    """Store a batch of records and return a receipt that counts the accepted, refused and repeated ones."""
    begin = perf_counter()
    asking: Caller = request.scope[CALLER]
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (wire.MSGPACK, wire.JSON):
        raise UnsupportedMediaType(f"Content-Type must be {wire.MSGPACK} or {wire.JSON}, got {media_type!r}")
    encoding = request.headers.get("content-encoding", "").strip().lower()
    body = await request.body()  # bounded by the guard

    settings, now = collector.settings, collector.clock()

    def read() -> ValidBatch:
        return read_any_batch(body, media_type=media_type, encoding=encoding, settings=settings, now=now)

    with collector.activity:
        # A thread costs more than a small batch. Large batches are read and appended a few at a time, because many of
        # them together would take the memory, the threads and the writer that small ones need.
        valid = read_known_batch(body, media_type=media_type, encoding=encoding, settings=settings, now=now)
        if valid is None and is_small(body, media_type=media_type, encoding=encoding):
            valid = read()
        if valid is not None:
            appended = await collector.appender.append(_require_reach(valid, asking))
        else:
            async with collector.large_batches:
                appended = await collector.appender.append(_require_reach(await asyncio.to_thread(read), asking))
    receipt = await collector.receipts.make(appended)
    collector.exposition.sdk_versions.count(request.headers.get("user-agent", ""))
    collector.exposition.count_batch(
        records=receipt.accepted,
        rejected=len(receipt.rejected),
        duplicates=receipt.duplicates,
        left_out=0 if receipt.left_out is None else receipt.left_out.signals,
        body_bytes=len(body),
        seconds=perf_counter() - begin,
    )
    encoded = wire.encode_json(receipt) if media_type == wire.JSON else wire.encode(receipt)
    return Response(encoded, media_type=media_type)


def _require_reach(valid: ValidBatch, asking: Caller) -> ValidBatch:
    """Return a batch, if its sender may write to its run.

    The steps of a trainer would resolve the alerts about the collector itself.
    """
    if valid.run_id == RUN_ID:
        raise InvalidField(
            f"the run {RUN!r} of the project {PROJECT!r} is for alerts about the collector itself; "
            "give the run another name, or another project (RLVITALS_PROJECT)"
        )
    if not asking.reaches(valid.batch.project):
        raise ScopeTooSmall(
            f"this key is for the project {asking.project!r}, and the batch is of {valid.batch.project!r}; set the "
            "project (RLVITALS_PROJECT) or ask for another key"
        )
    return valid
