"""Decides where channels that were saved over HTTP may connect to.

It uses the standard library alone, because Apprise's process imports it as well.

Whoever holds a key of the scope `admin` can save an address. Without a bound the collector would open connections for
them to what only its own network reaches: the loopback, services beside it, the metadata of a cloud's machine.
"""

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["NetworkRefused", "Networks"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")  # IPv4 behind a NAT64 gateway
# What `is_global` does not know in every version of Python: IPv4 within IPv6 in other ways, addresses of a site, and
# the service that each machine of Azure has beside it.
NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(each)
    for each in ("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10", "168.63.129.16/32")
)
MOST_ADDRESSES: Final = 4  # of one name, which share the time to connect


class NetworkRefused(OSError):  # noqa: N818 - it states what has happened
    """Nothing that a name stands for may be connected to; nothing was sent."""


class Networks:
    """Public addresses, and those that the settings add."""

    def __init__(self, added: Sequence[str] = ()) -> None:
        """Build the bound.

        Args:
            added: Networks such as ``10.0.0.0/8`` that may be reached as well.

        Raises:
            ValueError: If one is none.
        """
        self.added = tuple(added)
        self._added: list[Network] = [ipaddress.ip_network(each, strict=False) for each in added]

    def allow(self, host: object) -> bool:
        """Whether a numeric address may be connected to; a name, a path and everything else may not."""
        address = _number(host)
        return address is not None and (_is_public(address) or any(address in network for network in self._added))

    def refuse(self, host: str) -> bool:
        """Whether a host is a numeric address that may not be connected to; of a name this is found out later."""
        return _number(host) is not None and not self.allow(host)

    def connect(self, address: tuple[str, int], timeout: float | None = None, *_: Any) -> socket.socket:  # noqa: ANN401
        """Connect to a name or an address, as `socket.create_connection`, unless all that it stands for are refused.

        What was looked at is what is connected to: the name is looked up once, and at most `MOST_ADDRESSES` of it are
        tried, each for an equal part of the time.

        Raises:
            NetworkRefused: If nothing that the name stands for may be reached.
            OSError: If it could not be reached.
        """
        host, port = address
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        allowed = [each for each in dict.fromkeys(found) if self.allow(each)]
        if not allowed:
            raise NetworkRefused("not public, and in no network of RLVITALS_CHANNEL_NETWORKS")
        tried = allowed[:MOST_ADDRESSES]
        failure: OSError = ConnectionError("no address")
        for each in tried:
            try:
                return socket.create_connection((each, port), None if timeout is None else timeout / len(tried))
            except OSError as error:
                failure = error
        raise failure


def _number(host: object) -> Address | None:
    if not isinstance(host, str):
        return None
    try:
        return _unwrapped(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in TRANSLATED:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    is_tunnel = isinstance(address, ipaddress.IPv6Address) and address.teredo is not None
    is_listed = any(address in network for network in NOT_PUBLIC)
    return address.is_global and not (address.is_multicast or is_tunnel or is_listed)
