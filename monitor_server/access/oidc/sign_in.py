"""Signs persons in by OpenID Connect: provider, pending sign-ins, rate limits, and the threads for its requests."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from monitor_server.access.oidc.configuration import OidcConfiguration
from monitor_server.access.oidc.pending_sign_ins import PendingSignIn, PendingSignInCookies, UsedSignIns
from monitor_server.access.oidc.persons import Person
from monitor_server.access.rate_limits import AddressLimits
from monitor_server.errors import SignInRefused, StartupError, Unavailable
from monitor_server.settings import Settings

if TYPE_CHECKING:
    from monitor_server.access.oidc.provider import Provider

__all__ = ["OidcSignIn"]

# These threads are separate, so that a slow provider does not use up the threads that serve other requests.
THREADS: Final = 2
MOST_WAITING: Final = 16
# Requests per second; a sign-in needs two. An organisation behind one proxy has one address.
PER_ADDRESS: Final = 3.0
ALTOGETHER: Final = 20.0  # with ten minutes for a sign-in, at most about 25,000 used ones are kept, about 5 MB

Result = TypeVar("Result")


class OidcSignIn:
    """Begins and finishes sign-ins.

    Args:
        configuration: The provider, and the permissions of groups.
        provider: Asks the provider.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, configuration: OidcConfiguration, provider: "Provider", *, clock: Callable[[], float]) -> None:
        self.configuration = configuration
        self.cookies = PendingSignInCookies(configuration.client_secret)
        self.limits = AddressLimits("sign-ins were begun or finished", per_address=PER_ADDRESS, altogether=ALTOGETHER)
        self._used = UsedSignIns()
        self._provider = provider
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="rlvitals-oidc")
        self._waiting = 0

    @property
    def caches(self) -> dict[str, Callable[[], int]]:
        """Functions that return the number of entries of each cache."""
        return {"sign_in_addresses": lambda: len(self.limits), "used_sign_ins": lambda: len(self._used)}

    @classmethod
    def of(cls, settings: Settings, *, clock: Callable[[], float]) -> "OidcSignIn | None":
        """Return the sign-in of the settings, or None if no sign-in by OpenID Connect is set up.

        Raises:
            StartupError: If a setting cannot be used, or the library is missing.
        """
        configuration = OidcConfiguration.of(settings)
        if configuration is None:
            return None
        try:
            from monitor_server.access.oidc.provider import Provider  # noqa: PLC0415 - the extra may not be installed
        except ModuleNotFoundError as error:
            raise StartupError(f"RLVITALS_OIDC_ISSUER needs a library: {error}; install rlvitals[oidc]") from error
        return cls(configuration, Provider(configuration), clock=clock)

    async def begin(self, page: str) -> tuple[str, PendingSignIn]:
        """Return the address at which a person signs in, and the pending sign-in for the browser.

        Raises:
            SignInRefused: If the provider does not answer as required.
            Unavailable: If too many requests wait for the provider.
        """
        pending = PendingSignIn.begin(page, now=self._clock())
        return await self._ask(lambda: self._provider.authorization_url(pending)), pending

    def pending(self, cookie: str | None) -> list[PendingSignIn]:
        """Return the pending sign-ins of a browser, the oldest first."""
        return self.cookies.read(cookie, now=self._clock())

    def use(self, cookie: str | None, *, state: str) -> PendingSignIn:
        """Use up the sign-in of a browser, whatever its result will be, and return it.

        Raises:
            SignInRefused: If the cookie contains no sign-in with this state, or the sign-in was used before.
        """
        now = self._clock()
        pending = next((each for each in self.pending(cookie) if each.has_state(state)), None)
        if pending is None:
            raise SignInRefused("expired", "the answer belongs to no sign-in that this browser has begun")
        if not self._used.use(pending, now=now):
            raise SignInRefused("expired", "the sign-in was finished or refused before; a sign-in is used once")
        return pending

    async def finish(self, code: str, pending: PendingSignIn) -> Person:
        """Return the person who has signed in, for a sign-in that `use` has used up.

        Raises:
            SignInRefused: If the provider refuses, its token is not valid, or the person has no permission here.
            Unavailable: If too many requests wait for the provider.
        """
        claims = await self._ask(lambda: self._provider.redeem(code, pending))
        return Person.of(claims, self.configuration)

    def stop(self) -> None:
        """End the threads without waiting for requests to the provider."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, question: Callable[[], Result]) -> Result:
        if self._waiting >= MOST_WAITING:
            raise Unavailable("too many sign-ins wait for the OpenID Connect provider; try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question)
        finally:
            self._waiting -= 1
