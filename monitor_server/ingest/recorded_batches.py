"""Turns a recorded run into the batches that its trainer would have sent."""

from collections.abc import Iterator, Sequence

import msgspec

from monitor_server.detection.protocol import Observation
from trainer_hooks import wire

__all__ = ["batches"]

# A record may have a megabyte of names and numbers. A collector with default settings takes at most 32 MiB at once.
BATCH_BYTES = 4 << 20


def batches(
    steps: Sequence[Observation],
    *,
    name: str,
    project: str,
    size: int,
    attempt: int | None = None,
    end: wire.RunEnd = "finished",
) -> Iterator[wire.Batch]:
    """Yield the batches that a trainer would have sent, at most ``size`` records each; the last one ends the run.

    A batch ends with the record that takes it to `BATCH_BYTES`. A step after which somebody acknowledged an alert is
    the last one of its batch. The attempts are those of the steps, or ``attempt`` for all steps.
    """
    held: list[msgspec.Raw] = []
    held_bytes = 0
    for place, step in enumerate(steps):
        record = wire.encode(_record(step))
        held.append(msgspec.Raw(record))
        held_bytes += len(record)
        is_last = place == len(steps) - 1
        is_full = len(held) == size or held_bytes >= BATCH_BYTES
        if is_last or is_full or step.acknowledged or steps[place + 1].attempt != step.attempt:
            yield wire.Batch(
                schema_version=1,
                run=name,
                project=project,
                attempt=step.attempt if attempt is None else attempt,
                capability="L0",
                source="replay",
                end=end if is_last else None,
                records=held,
            )
            held, held_bytes = [], 0


def _record(step: Observation) -> wire.Record:
    """Return the record of a step; its time is that of the replay."""
    return wire.Record(step=step.step, data_version=step.data_version, scalars=dict(step.signals))
