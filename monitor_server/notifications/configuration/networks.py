"""Decides which networks the channels that were saved over HTTP may connect to.

It uses the standard library alone, because Apprise's process imports it as well.

The owner of a key of the scope `admin` can save an address. Without a limit, the collector would connect for this
person to hosts that only its own network reaches: the loopback, services beside it, the metadata service of a cloud
machine.
"""

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["NetworkRefused", "Networks"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")  # IPv4 behind a NAT64 gateway
# Networks that `is_global` does not recognise in every version of Python: other forms of IPv4 within IPv6, addresses of
# a site or a segment, examples, relays, and the services that each machine of Azure and of Oracle has beside it.
NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96", "fec0::/10", "5f00::/16", "3fff::/20"),
        *("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24"),
    )
)
MOST_ADDRESSES: Final = 4  # the largest number of addresses of one name; they share the time to connect


class NetworkRefused(OSError):  # noqa: N818 - it states what has happened
    """No address of a name may be connected to; nothing was sent."""


class Networks:
    """Public addresses, and the networks that the settings add."""

    def __init__(self, added: Sequence[str] = ()) -> None:
        """Build the set of allowed networks.

        Args:
            added: Networks such as ``10.0.0.0/8`` that are allowed as well.

        Raises:
            ValueError: If one of them is not a network.
        """
        self.added = tuple(added)
        self._added: list[Network] = [ipaddress.ip_network(each, strict=False) for each in added]

    def allow(self, host: object) -> bool:
        """Whether a numeric address may be connected to. Names, paths and all other values may not."""
        address = _number(host)
        return address is not None and (_is_public(address) or any(address in network for network in self._added))

    def refuse(self, host: str) -> bool:
        """Whether a host is a numeric address that is not allowed; a name is checked when it is resolved."""
        return _number(host) is not None and not self.allow(host)

    def connect(self, address: tuple[str, int], timeout: float | None = None, *_: Any) -> socket.socket:  # noqa: ANN401
        """Connect to a name or an address, as `socket.create_connection`, unless all of its addresses are refused.

        The addresses that are checked are the ones that are connected to: the name is resolved once, and at most
        `MOST_ADDRESSES` of its addresses are tried, each for an equal part of the time.

        Raises:
            NetworkRefused: If no address of the name is allowed.
            OSError: If no address could be reached.
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
        return _unwrap(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address contains, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in TRANSLATED:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    is_tunnel = isinstance(address, ipaddress.IPv6Address) and address.teredo is not None
    is_listed = any(address in network for network in NOT_PUBLIC)
    return address.is_global and not (address.is_multicast or is_tunnel or is_listed)
