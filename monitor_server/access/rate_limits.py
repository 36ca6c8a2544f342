"""Limits of requests and bytes for each key, checked before a body is read."""

import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from monitor_server.errors import TooManyRequests

__all__ = ["RateLimits"]

BURST_SECONDS: Final = 10.0  # a trainer that was cut off sends what has piled up
MOST_CALLERS: Final = 10_000


class RateLimits:
    """A token bucket of requests and one of bytes for each caller.

    The bytes of a body are counted while it arrives, because a client may announce any length. A caller whose bodies
    were too many is refused before the next one.

    Args:
        requests: Requests per second, for ten seconds at once; 0 for any number.
        bytes_: Bytes of bodies per second, likewise.
        time: Returns seconds that never go back.
    """

    def __init__(self, *, requests: float, bytes_: float, time: Callable[[], float] = monotonic) -> None:
        self._rates = (requests or math.inf, bytes_ or math.inf)
        self._time = time
        self._levels: OrderedDict[str, list[float]] = (
            OrderedDict()
        )  # what is left of requests, of bytes, and since when

    def count_request(self, caller: str) -> None:
        """Count a request.

        Raises:
            TooManyRequests: If the caller has sent too many requests or bytes. The request is not counted then.
        """
        levels = self._refilled(caller)
        missing = (1.0 - levels[0], -levels[1])
        seconds = max(lacks / rate if lacks > 0 else 0.0 for lacks, rate in zip(missing, self._rates, strict=True))
        if seconds > 0:
            raise TooManyRequests(
                f"a key may send {self._rates[0]:g} requests and {self._rates[1]:g} bytes a second "
                "(RLVITALS_KEY_REQUESTS_PER_SECOND, RLVITALS_KEY_BYTES_PER_SECOND); send again later",
                retry_after=math.ceil(seconds),
            )
        levels[0] -= 1.0

    def count_bytes(self, caller: str, more: int) -> None:
        """Count bytes of a body that have arrived."""
        self._refilled(caller)[1] -= more

    def _refilled(self, caller: str) -> list[float]:
        now = self._time()
        full = [rate * BURST_SECONDS for rate in self._rates]
        levels = self._levels.setdefault(caller, [*full, now])
        self._levels.move_to_end(caller)
        if len(self._levels) > MOST_CALLERS:
            self._levels.popitem(last=False)
        for place, rate in enumerate(self._rates):
            levels[place] = min(full[place], levels[place] + rate * (now - levels[2]) if rate < math.inf else math.inf)
        levels[2] = now
        return levels
