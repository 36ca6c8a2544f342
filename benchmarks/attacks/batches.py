"""Sends batches of the wire schema, as a trainer that has no SDK would."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
import urllib3

from trainer_hooks import wire

__all__ = ["HEADERS", "batch", "record", "send"]

NAMES = [f"signal/{place}" for place in range(60)]
HEADERS = {"Content-Type": wire.MSGPACK}


def send(
    pool: urllib3.PoolManager,
    url: str,
    body: bytes,
    *,
    encoding: str = "",
    expected: Sequence[int] = (HTTPStatus.OK,),
) -> None:
    """Send one body.

    Raises:
        RuntimeError: If the status of the answer is not expected.
    """
    headers = HEADERS | ({"Content-Encoding": encoding} if encoding else {})
    answer = pool.request("POST", f"{url}/api/v1/ingest", body=body, headers=headers)
    if answer.status not in expected:
        raise RuntimeError(f"the collector must answer {expected[0]}, got {answer.status}: {answer.data[:200]!r}")


def batch(run: str, records: Sequence[object], **fields: object) -> bytes:
    """Return an encoded batch."""
    return msgspec.msgpack.encode({"schema_version": 2, "run": run, "records": records} | fields)


def record(step: int) -> dict[str, object]:
    """Return a record of 60 scalars."""
    return {"step": step, "scalars": dict.fromkeys(NAMES, 0.1 * step)}
