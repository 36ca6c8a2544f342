"""The clock for deadlines: it shows the time of day, and jumps of the machine's clock do not move it."""

import logging
import time
from collections.abc import Callable

from monitor_server.durations import DAY_SECONDS, HOUR_SECONDS
from monitor_server.store.database import Store
from trainer_hooks.wire import EARLIEST_TIME

__all__ = ["SteadyClock"]

log = logging.getLogger(__name__)

# NTP moves a clock by less than this at a time, unless there is a fault.
JUMP_SECONDS = 5.0
# A wrong time zone is half a day. If larger jumps were accepted, a clock that is years ahead for a moment would have an
# effect for years.
LARGEST_JUMP_SECONDS = DAY_SECONDS
# A machine with an empty battery starts with any date, and NTP sets it within minutes.
SETTLING_SECONDS = HOUR_SECONDS


class SteadyClock:
    """Seconds since the epoch at the start, plus the seconds that have passed since then.

    If the machine's clock is set back, deadlines still pass; if it is set forward, no running trainer is lost.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        newest: float | None = None,
        shared: float | None = None,
    ) -> None:
        """Start the clock.

        Args:
            wall: The machine's clock, in seconds since the epoch.
            monotonic: A clock that is never set.
            newest: The newest time in the database. If the machine's clock shows up to a day less, it was set back
                while the collector was away, and the clock starts from the newest time. A larger difference means that
                one of the two clocks was wrong. The machine's is then used, and ``distrusts_newest`` is true, unless
                it shows a time before `EARLIEST_TIME` and the database a later one: then the clock starts from the
                newest time.
            shared: The time of the database server's clock. If it differs from the machine's, it is used. Otherwise a
                machine whose clock is days ahead would treat runs as silent, and remove runs that other collectors
                still receive. A time before `EARLIEST_TIME` is not used if the machine or the database shows a later
                one; if all are earlier, nothing shows that a clock is wrong.
        """
        self._wall = wall
        self._monotonic = monotonic
        self._start = wall()
        latest = self._start if newest is None else max(self._start, newest)
        if shared is not None and shared < EARLIEST_TIME <= latest:
            log.warning("the database's clock is not used: it shows a time before rlvitals was written; correct it")
            shared = None
        if shared is not None and abs(self._start - shared) > JUMP_SECONDS:
            log.warning(
                "the machine's clock is %+.0f s ahead of the database's clock, which its collectors use; correct the "
                "machine's clock, and restart the collector",
                self._start - shared,
            )
            self._start = shared
        ahead = 0.0 if newest is None else newest - self._start
        self.distrusts_newest = ahead > LARGEST_JUMP_SECONDS and not self._start < EARLIEST_TIME <= latest
        if self.distrusts_newest:
            log.warning(
                "the newest time in the database is %.0f s ahead of the machine's clock, more than a day; times in the "
                "database that lie ahead are set to the machine's",
                ahead,
            )
        elif newest is not None and ahead > JUMP_SECONDS:
            log.warning(
                "the machine's clock is %.0f s behind the newest time in the database; deadlines count from that time",
                ahead,
            )
            self._start = newest
        self._is_shared = shared is not None
        self._is_late = newest is not None and self._start - newest > LARGEST_JUMP_SECONDS
        self._begun = monotonic()
        if self._is_late and not self._is_shared:
            log.info(
                "the newest time in the database is %.0f s old: nothing is removed for its age for %.0f s, because the "
                "machine's clock may be wrong",
                -ahead,
                SETTLING_SECONDS,
            )
        self._reported = self.jump_seconds()

    @classmethod
    def of(
        cls, store: Store, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> "SteadyClock":
        """Return a clock that agrees with a database; times in it that the clock distrusts are set to its own."""
        with store.read() as repositories:
            newest, shared = repositories.runs.newest_time(), repositories.server_clock()
        steady = cls(wall=wall, monotonic=monotonic, newest=newest, shared=shared)
        if steady.distrusts_newest:
            with store.write() as repositories:
                repositories.runs.limit_times(steady())
                repositories.rules.limit_times(steady())
                repositories.notification_messages.limit_times(steady())
                repositories.channel_statuses.limit_times(steady())
                repositories.silences.limit_times(steady())
                repositories.action_links.limit_times(steady())
                repositories.action_requests.limit_times(steady())
        return steady

    def __call__(self) -> float:
        """Return seconds since the epoch."""
        return self._start + self._monotonic() - self._begun

    def may_be_ahead(self) -> bool:
        """Return whether data that is old by this clock may be young, so that nothing may be removed for its age.

        This is so if the machine's clock has been set back since the start. It is also so for some time after a start
        at which it showed more than a day after the newest time in the database. The clock of a server is trusted.
        """
        if self._is_shared:
            return False
        is_early = self._monotonic() - self._begun < SETTLING_SECONDS
        return self.jump_seconds() < -SETTLING_SECONDS or (self._is_late and is_early)

    def jump_seconds(self) -> float:
        """Return how far the machine's clock is ahead of this one."""
        return self._wall() - self()

    def report_jump(self) -> None:
        """Log a jump of the machine's clock, once."""
        ahead = self.jump_seconds()
        if abs(ahead - self._reported) > JUMP_SECONDS:
            log.warning(
                "the machine's clock was set by %+.0f s; deadlines are not moved by it, and times are shown as before "
                "until the collector is restarted",
                ahead - self._reported,
            )
            self._reported = ahead
