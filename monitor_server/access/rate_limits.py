"""Limits of requests and bytes for each key, and of requests of one kind for each address or key."""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from monitor_server.errors import TooManyRequests

__all__ = ["AddressLimits", "RateLimits"]

BURST_SECONDS: Final = 10.0  # a trainer that was disconnected sends its gathered batches
MOST_CALLERS: Final = 10_000
IPV6_NETWORK_BITS: Final = 64  # one client usually has all addresses of such a network


class RateLimits:
    """A token bucket of requests and one of bytes for each caller.

    The bytes of a body are counted while it arrives, because a client may announce any length. A caller that has
    exceeded the limit of bytes is refused at its next request.

    Args:
        requests: Requests per second, for ten seconds at once; 0 for no limit.
        bytes_: Bytes of bodies per second, for ten seconds at once; 0 for no limit.
        time: Returns seconds that never go back.
    """

    def __init__(self, *, requests: float, bytes_: float, time: Callable[[], float] = monotonic) -> None:
        self._rates = (requests or math.inf, bytes_ or math.inf)
        self._time = time
        self._levels: OrderedDict[str, list[float]] = (
            OrderedDict()
        )  # the rest of requests, the rest of bytes, and the time of this state

    def __len__(self) -> int:
        return len(self._levels)

    def count_request(self, caller: str) -> None:
        """Count a request.

        Raises:
            TooManyRequests: If the caller has sent too many requests or bytes. Then the request is not counted.
        """
        levels = self._refill(caller)
        missing = {"requests": 1.0 - levels[0], "bytes": -levels[1]}
        waits = [
            (lacks / rate, rate, what)
            for (what, lacks), rate in zip(missing.items(), self._rates, strict=True)
            if lacks > 0
        ]
        if waits:
            seconds, rate, what = max(waits)
            raise TooManyRequests(
                f"a key may send {rate:,.15g} {what} a second (RLVITALS_KEY_{what.upper()}_PER_SECOND); "
                "send again later",
                retry_after=math.ceil(seconds),
            )
        levels[0] -= 1.0

    def count_bytes(self, caller: str, more: int) -> None:
        """Count bytes of a body that have arrived."""
        self._refill(caller)[1] -= more

    def _refill(self, caller: str) -> list[float]:
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


class AddressLimits:
    """Limits requests of one kind: from one address, or with one key if they need one, and in total.

    Args:
        what: The requested objects, in the plural, for the error message.
        per_address: Requests per second from one address, for ten seconds at once. All IPv6 addresses that differ only
            in their last 64 bits count as one.
        altogether: Requests per second from all addresses, for ten seconds at once.
        time: Returns seconds that never go back.
    """

    def __init__(
        self, what: str, *, per_address: float, altogether: float, time: Callable[[], float] = monotonic
    ) -> None:
        self._what = what
        self._per_address = RateLimits(requests=per_address, bytes_=0, time=time)
        self._altogether = RateLimits(requests=altogether, bytes_=0, time=time)

    def __len__(self) -> int:
        return len(self._per_address)

    def count(self, address: str) -> None:
        """Count a request.

        Raises:
            TooManyRequests: If there were too many requests.
        """
        try:
            self._per_address.count_request(_network(address))
            self._altogether.count_request("")
        except TooManyRequests as error:
            seconds = int(error.headers["Retry-After"])
            raise TooManyRequests(f"too many {self._what}; try again in {seconds} s", retry_after=seconds) from None


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped is not None:
        return address
    return str(ipaddress.IPv6Network((int(parsed), IPV6_NETWORK_BITS), strict=False))
