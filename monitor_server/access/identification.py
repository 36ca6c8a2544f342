"""Recognises the sender of a request: by a key, by the header of a trusted proxy, or by the cookie of a sign-in."""

import ipaddress
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers

from monitor_server.access.callers import ANYBODY, Caller, Scope
from monitor_server.access.keys.administration import PREFIX
from monitor_server.access.keys.known_keys import KnownKeys
from monitor_server.access.keys.names import is_reserved
from monitor_server.access.sessions import (
    COOKIE,
    DELEGATED,
    Delegation,
    find_cookie,
    host_cookie,
    is_encrypted,
    read_session,
)
from monitor_server.errors import KeyRequired, StartupError
from monitor_server.settings import Settings
from monitor_server.store.repositories.api_keys import StoredKey
from monitor_server.text_safety.printable import printable

__all__ = ["Identification", "TrustedProxies", "caller_of"]

log = logging.getLogger(__name__)

LONGEST_NAME: Final = 200
BEARER: Final = "bearer "
HEADER: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 9110, section 5.6.2
MAPPED_BITS: Final = 96  # the bits before the IPv4 address in an IPv6 address that contains one


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Proxies that sign users in and name them in a header.

    Attributes:
        header: The header's name.
        networks: The trusted addresses; the header from any other address is ignored.
        scope: The permission of the users.
    """

    header: str
    networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
    scope: Scope

    @classmethod
    def of(cls, settings: Settings) -> "TrustedProxies | None":
        """Return the proxies of the settings, or None if no proxy is trusted.

        Raises:
            StartupError: If the settings lack one of the two values, or a header or an address is not valid.
        """
        names = [name.strip() for name in settings.trusted_proxies.split(",") if name.strip()]
        if not settings.trusted_header and not names:
            return None
        if not settings.trusted_header or not names:
            raise StartupError(
                "RLVITALS_TRUSTED_HEADER and RLVITALS_TRUSTED_PROXIES must be set together, got "
                f"{settings.trusted_header!r} and {settings.trusted_proxies!r}"
            )
        if re.fullmatch(HEADER, settings.trusted_header) is None:
            raise StartupError(
                "RLVITALS_TRUSTED_HEADER must be the name of a header, such as X-Forwarded-User, got "
                f"{settings.trusted_header!r}"
            )
        try:
            networks = [_own_network(ipaddress.ip_network(name, strict=False)) for name in names]
        except ValueError as error:
            raise StartupError(
                f"RLVITALS_TRUSTED_PROXIES must be addresses such as 10.0.0.5 or 10.0.0.0/24: {error}"
            ) from error
        return cls(settings.trusted_header, networks, Scope(settings.trusted_scope))

    def user(self, headers: Headers, address: str) -> str | None:
        """Return the user named by a proxy, or None."""
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return None
        named = headers.getlist(self.header)
        if len(named) != 1 or not any(peer in network for network in self.networks):
            return None
        name = _decoded(named[0]).strip()
        if not name:
            return None
        if name.isprintable() and len(name) <= LONGEST_NAME and not is_reserved(name):
            return name
        log.warning(
            "a proxy has named a user who is not admitted, because a name must be at most %d characters that can be "
            "seen, and none that the collector itself uses: %s",
            *(LONGEST_NAME, printable(name, longest=LONGEST_NAME)),
        )
        return None


@dataclass(slots=True)
class Identification:
    """Recognises callers.

    Attributes:
        keys: All keys.
        delegation: Reads the dashboard's credentials for a browser.
        proxies: The proxies that name users, or None.
        is_closed: Whether people sign in another way, so that keys are required even if there is none yet.
        is_https: Whether browsers reach the collector by HTTPS, so that only cookies for HTTPS are read.
        clock: Returns seconds since the epoch.
    """

    keys: KnownKeys
    delegation: Delegation
    clock: Callable[[], float] = field(repr=False)
    proxies: TrustedProxies | None = None
    is_closed: bool = False
    is_https: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether callers must be recognised: once there was a key, or if people sign in another way."""
        return self.is_closed or self.keys.are_needed or self.proxies is not None

    def identify(self, headers: Headers, address: str, *, scheme: str = "http") -> Caller | None:
        """Return the sender of a request, or None if the request does not identify one.

        Args:
            headers: The headers of the request.
            address: The client's address, from the connection itself.
            scheme: The scheme of the connection.

        Raises:
            KeyRequired: If the request has an invalid key.
        """
        if not self.is_needed:
            return ANYBODY
        authorization = headers.get("authorization", "")
        user = None if self.proxies is None else self.proxies.user(headers, address)
        if authorization.lower().startswith(BEARER):
            secret = authorization[len(BEARER) :].strip()
            # A proxy may pass on the token of its own sign-in, which is no key of ours.
            if user is None or secret.startswith((PREFIX, DELEGATED)):
                return self._bearer(secret)
        if user is not None and self.proxies is not None:
            return Caller(name=user, scope=self.proxies.scope)
        secure = is_encrypted(headers, scheme=scheme, is_https=self.is_https)
        value = find_cookie(headers, host_cookie(COOKIE, secure=secure))
        key = None if value is None else read_session(value, find=self.keys.find, now=self.clock())
        if key is None:
            return None
        self.keys.note_use(key)
        return caller_of(key)

    def _bearer(self, secret: str) -> Caller:
        if secret.startswith(DELEGATED):
            caller = self.delegation.read(secret)
            if caller is not None and caller.key_id is None:
                return caller
            key = None if caller is None or caller.key_id is None else self.keys.find(caller.key_id)
            if key is not None:
                return caller_of(key)  # a new sign-in may have changed the rights since the text was signed
        else:
            key = self.keys.recognise(secret)
            if key is not None:
                return caller_of(key)
        raise KeyRequired("the key is not known, has expired or was revoked; an administrator can make another one")


def _decoded(value: str) -> str:
    """Return a header's value as the UTF-8 that most proxies send, or else as the Latin-1 of HTTP."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _own_network(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return a network; one of IPv4 that is written as IPv6 (``::ffff:10.0.0.0/120``) is returned as IPv4."""
    if isinstance(network, ipaddress.IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= MAPPED_BITS:
            return ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED_BITS))
    return network


def caller_of(key: StoredKey) -> Caller:
    """Return the sender of a request with a key."""
    return Caller(name=key.name, scope=Scope(key.scope), project=key.project, key_id=key.id)
