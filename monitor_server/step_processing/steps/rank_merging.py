"""Merges the records of a step's ranks. It depends on neither the store's transactions nor detection.

A step may have any number of records. The bytes of the records within the bounds are kept, and each is decoded in its
turn, so that merging takes the memory of the signals and not that of the records.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from monitor_server.detection.protocol import SEEN_SHARE
from monitor_server.errors import SummaryConflict
from monitor_server.ingest.validation.shapes import Shape, check_shapes, summary_shapes
from monitor_server.settings import Settings
from monitor_server.store.repositories.log.blocks import StoredRecord
from monitor_server.store.repositories.log.step_records import StepBounds
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire

__all__ = ["StepRecords", "merge_records", "step_bounds"]

log = logging.getLogger(__name__)

RESPONSES = "reward/mean"  # every rank whose responses are in the step's signals sends its share of this mean
# A rank that sends one of these and no share of the mean has lost its responses of this step: its rollouts were left
# out, or an exception ended the step before them. Other ranks without a share may measure no responses at all.
LOST = ("hooks/lost_rollouts", "hooks/partial_step")


def step_bounds(settings: Settings) -> StepBounds:
    """Return the bounds that the settings place on the merge of one step."""
    return StepBounds(records=settings.max_step_records, body_bytes=settings.max_step_bytes)


@dataclass(slots=True)
class StepRecords:
    """The records of one step of one attempt as they are stored, by rank and sequence number.

    Attributes:
        bounds: The bounds on the merge of the step; records must be added in the order of the log.
        body_bytes: The bytes of the records that are kept.
        left_out: The number of records that were added beyond the bounds.
    """

    bounds: StepBounds
    body_bytes: int = 0
    left_out: int = 0
    _bodies: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._bodies)

    def add(self, record: StoredRecord) -> None:
        """Keep a record, unless it is beyond the bounds, is kept already, or was removed by retention.

        Retention removes the records of complete steps. Such a step may wait again: retention can remove the step as
        well, and the trainer may send it again.
        """
        if not record.body or (record.rank, record.seq) in self._bodies:
            return
        size = self.body_bytes + len(record.body)
        # Once a record does not fit, no later one is kept: a store that is read again stops at the same place.
        if self.left_out or not self.bounds.allow(records=len(self) + 1, body_bytes=size):
            self.left_out += 1
            return
        self.body_bytes = size
        self._bodies[record.rank, record.seq] = record.body

    def merge(self, *, step: int, attempt: int, now: float, world_size: int = 1) -> Step:
        """Merge all records; the arguments are those of `merge_records`."""
        ordered = sorted(self._bodies, key=lambda key: (-key[0], key[1]))
        decoded = ((rank, wire.decode_record(self._bodies[rank, seq])) for rank, seq in ordered)
        return merge_records(decoded, step=step, attempt=attempt, now=now, world_size=world_size)


def merge_records(
    records: Iterable[tuple[int, wire.Record]], *, step: int, attempt: int, now: float, world_size: int = 1
) -> Step:
    """Merge the records of a step.

    A record whose summaries cannot be merged with the earlier ones is left out, with a log line. Ingest refuses such a
    record if it has read the earlier ones. Two collectors that store shards of a step at once may both miss it.

    Args:
        records: Each with its rank, in the order in which `wire.merge` takes them: if values cannot be merged, the
            value of rank 0 is used.
        step: The step.
        attempt: Its attempt.
        now: The time of the step if no rank has sent one, in seconds since the epoch.
        world_size: The ranks of the attempt. If some are missing, the share that reported is a signal of the step. A
            rank that has lost its responses is missing where other ranks have theirs.
    """
    shapes: dict[str, Shape] = {}
    ranks: set[int] = set()
    measured: set[int] = set()
    lost: set[int] = set()
    time: float | None = None
    policy_version: int | None = None
    data_version: str | None = None

    def read() -> Iterator[wire.Record]:
        nonlocal time, policy_version, data_version
        for rank, record in records:
            new = summary_shapes(record)
            try:
                check_shapes(new, shapes, step=step, rank=rank)
            except SummaryConflict as error:
                log.warning("a stored record is left out of its step: %s", error)
                continue
            shapes.update(new)
            ranks.add(rank)
            if RESPONSES in record.summaries:
                measured.add(rank)
            elif any(name in record.summaries or name in record.scalars for name in LOST):
                lost.add(rank)
            time = time if record.time is None else record.time
            policy_version = policy_version if record.policy_version is None else record.policy_version
            data_version = data_version if record.data_version is None else record.data_version
            yield record

    signals = wire.merge(read())
    seen = len(ranks - (lost - measured)) if measured else len(ranks)
    if seen < world_size:
        signals[SEEN_SHARE] = seen / world_size
    return Step(
        step=step,
        attempt=attempt,
        time=now if time is None else time,
        policy_version=policy_version,
        data_version=data_version,
        signals=signals,
    )
