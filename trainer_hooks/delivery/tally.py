"""Counts what was lost, by reason, and says so in the log at most once a minute. Never raises."""

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

__all__ = ["LOST_RECORDS", "Reason", "Tally"]

logger = logging.getLogger("trainer_hooks")

Reason = Literal[
    "buffer_full",  # handed over faster than it could be packed
    "outbox_full",  # the collector was away for longer than the outbox holds
    "refused",  # the collector answered 4xx for the whole batch
    "rejected",  # the collector refused this record
    "unreadable",  # somebody took it from the spool
    "unpacked",  # an argument of log_step was not what it must be, or an error of ours
    "unsent",  # still undelivered in memory when the process ended
    "unspooled",  # could not be written to disk, and is kept in memory only; no loss yet
    "rollouts",  # rollout arrays contradicted each other
    "scalars",  # a scalar was no number
    "responses",  # sampled responses, or their texts, could not be packed, or the collector refused them
    "internal_errors",  # an error of ours, of an adapter, or of on_alert
]
LOST_RECORDS: tuple[Reason, ...] = (
    "buffer_full",
    "outbox_full",
    "refused",
    "rejected",
    "unreadable",
    "unpacked",
    "unsent",
)
LOG_INTERVAL_SECONDS = 60.0


class Tally:
    """Losses by reason since the process started.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: Counter[Reason] = Counter()
        self._logged: dict[str, float] = {}

    def __getitem__(self, reason: Reason) -> int:
        return self._counts.get(reason, 0)

    @property
    def lost_records(self) -> int:
        """Records that will never reach the store."""
        return sum(self._counts[reason] for reason in LOST_RECORDS)

    def count(self, reason: Reason, detail: str, *, by: int = 1) -> None:
        """Add losses, and log the newest if this reason was quiet for a minute."""
        self._counts[reason] += by
        self.note(reason, f"{detail} ({reason}: {self._counts[reason]} so far)")

    def note(self, topic: str, detail: str) -> None:
        """Log, if this topic was quiet for a minute."""
        now = self._clock()
        if now - self._logged.get(topic, -math.inf) >= LOG_INTERVAL_SECONDS:
            self._logged[topic] = now
            # A handler or a filter of the user's may raise.
            with contextlib.suppress(Exception):
                logger.warning("rlvitals: %s", detail)

    def swallow(self, error: Exception, *, lost: Reason | None = None, by: int = 1) -> None:
        """Keep an error of ours from reaching the training, and count the records that it cost."""
        detail = f"{type(error).__name__}: {error}"
        if lost and by:
            self._counts[lost] += by
            detail = f"{by} records were lost ({lost}): {detail}"
        self.count("internal_errors", detail)
