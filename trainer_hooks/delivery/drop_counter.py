"""Counts dropped records and internal errors by reason, and logs each reason at most once a minute. Never raises."""

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

from trainer_hooks.text_safety import LONGEST_TEXT_CHARS, describe_error, printable

__all__ = ["DROPPED_RECORD_REASONS", "DropCounter", "Reason"]

logger = logging.getLogger("trainer_hooks")

# The names of the signals hooks/dropped/… end with these words, so they are part of the wire and do not change.
Reason = Literal[
    "buffer_full",  # logged faster than it could be encoded: the record queue was full
    "outbox_full",  # the collector was away for longer than the sending queue holds
    "refused",  # the collector answered 4xx for the whole batch
    "rejected",  # the collector refused this record
    "unreadable",  # somebody deleted it from the spool
    "unpacked",  # it could not be encoded: a wrong argument of log_step, or an error of ours
    "unsent",  # still undelivered in memory when the process ended
    "unspooled",  # it could not be written to disk and is kept in memory only; not lost yet
    "rollouts",  # rollout arrays contradicted each other
    "scalars",  # a scalar was not a number, had a name that cannot be sent, or was one more name than the run may have
    "responses",  # sampled responses or their texts could not be encoded, or the collector refused them
    "internal_errors",  # an error of ours, of an adapter, or of on_alert
]
DROPPED_RECORD_REASONS: tuple[Reason, ...] = (
    "buffer_full",
    "outbox_full",
    "refused",
    "rejected",
    "unreadable",
    "unpacked",
    "unsent",
)
LOG_INTERVAL_SECONDS = 60.0


class DropCounter:
    """Counters by reason since the process started.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: Counter[Reason] = Counter()
        self._logged_at: dict[str, float] = {}

    def __getitem__(self, reason: Reason) -> int:
        return self._counts.get(reason, 0)

    @property
    def dropped_records(self) -> int:
        """Records that will never reach the store."""
        return sum(self._counts[reason] for reason in DROPPED_RECORD_REASONS)

    def count(self, reason: Reason, detail: str, *, by: int = 1, once: str = "") -> None:
        """Increase a counter, and log the detail unless this reason was logged within the last minute.

        Args:
            reason: The counter.
            detail: The cause, and what to do about it.
            by: The amount that is added.
            once: A topic under which the detail is logged only once, for a cause that is the same at each step.
        """
        self._counts[reason] += by
        if once:
            self.warn(once, detail, once=True)
        else:
            self.warn(reason, f"{detail} ({reason}: {self._counts[reason]} so far)")

    def count_error(self, error: BaseException, *, lost: Reason | None = None, by: int = 1) -> None:
        """Count an error of ours, which must not reach the training, and the records that it cost."""
        detail = f"{type(error).__name__}: {describe_error(error)}"
        if lost and by:
            self._counts[lost] += by
            detail = f"{by} records were lost ({lost}): {detail}"
        self.count("internal_errors", detail)

    def count_rollouts(self, error: BaseException) -> None:
        """Count rollouts that were left out, because their arrays contradict each other or cannot be read."""
        self.count("rollouts", f"rollouts were left out: {describe_error(error)}")

    def warn(self, topic: str, detail: str, *, once: bool = False) -> None:
        """Log a warning unless this topic was logged within the last minute, or ``once`` and before."""
        now = self._clock()
        if now - self._logged_at.get(topic, -math.inf) >= LOG_INTERVAL_SECONDS:
            self._logged_at[topic] = math.inf if once else now
            # A handler or a filter of the user's may raise. Texts may come from a server that is no collector.
            with contextlib.suppress(Exception):
                logger.warning("rlvitals: %s", printable(detail[:LONGEST_TEXT_CHARS]))
