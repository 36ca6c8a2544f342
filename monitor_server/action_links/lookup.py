"""Looks up the links that browsers open: a few at a time, with a limit on unknown links."""

import asyncio
from collections.abc import Callable
from typing import Final

from monitor_server.access.rate_limits import AddressLimits
from monitor_server.action_links.signing import LinkSecrets, is_token
from monitor_server.action_links.using import FoundLink, LinkUse, check_link, read_link
from monitor_server.store.database import Store

__all__ = ["LinkLookup"]

# The number of simultaneous look-ups, so that guesses do not use up the threads of other requests.
LOOKUPS: Final = 2
# Nobody can guess a link; the limits bound the work, in requests per second.
UNKNOWN_PER_ADDRESS: Final = 5.0
UNKNOWN_ALTOGETHER: Final = 50.0


class LinkLookup:
    """Looks up links for requests on one event loop.

    Args:
        store: The database.
        secrets: The secrets that signed the links.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, store: Store, secrets: LinkSecrets, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._turns = asyncio.Semaphore(LOOKUPS)
        # Valid links are not counted: behind a proxy, a stranger who guesses would use up the limit of other people.
        self._unknown = AddressLimits(
            "unknown links were opened", per_address=UNKNOWN_PER_ADDRESS, altogether=UNKNOWN_ALTOGETHER
        )

    @property
    def counted_addresses(self) -> int:
        """The number of addresses that have opened unknown links lately."""
        return len(self._unknown)

    async def find(self, token: str, *, address: str) -> FoundLink | None:
        """Return the link of a token, or None; an unknown one is counted for its address.

        Raises:
            TooManyRequests: If too many unknown ones came from the address, or in total.
            Unavailable: If the database cannot be read.
        """
        found = await self.read(token) if is_token(token) else None
        if found is None:
            self._unknown.count(address)
        return found

    async def read(self, token: str) -> FoundLink | None:
        """Return the current state of the link of a token, or None.

        Raises:
            Unavailable: If the database cannot be read.
        """

        def read() -> FoundLink | None:
            with self._store.read() as repositories:
                return read_link(repositories, self._secrets, token, now=self._clock())

        async with self._turns:
            return await asyncio.to_thread(read)

    async def check(self, token: str, confirmation: str) -> LinkUse:
        """Return the result that an attempt to use a link would have, without a change.

        Raises:
            Unavailable: If the database cannot be read.
        """

        def check() -> LinkUse:
            with self._store.read() as repositories:
                return check_link(repositories, self._secrets, token, confirmation, now=self._clock())

        async with self._turns:
            return await asyncio.to_thread(check)
