"""How often links may be opened: from one address, and altogether. Nobody can guess one; this bounds the work."""

from monitor_server.access.rate_limits import RateLimits

__all__ = ["LinkLimits"]


class LinkLimits:
    """Counts requests without a key, each of which asks the database."""

    def __init__(self, *, per_address: float = 5.0, altogether: float = 50.0) -> None:
        self._per_address = RateLimits(requests=per_address, bytes_=0)
        self._altogether = RateLimits(requests=altogether, bytes_=0)

    def count(self, address: str) -> None:
        """Count a request, of which ten seconds' worth may come at once.

        Raises:
            TooManyRequests: If there were too many.
        """
        self._per_address.count_request(address)
        self._altogether.count_request("")
