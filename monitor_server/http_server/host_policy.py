"""The host names under which a server may be addressed, as a defence against DNS rebinding."""

import functools
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from monitor_server.errors import StartupError

__all__ = ["HostPolicy", "StartupError"]

WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
LONGEST_ADDRESS: Final = 47  # IPv6 with an IPv4 part, in brackets
NAME: Final = re.compile(r"\.?[a-z0-9_-][a-z0-9_.-]*")
AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?")


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The host names under which this server may be addressed.

    An IP address is always accepted, because DNS rebinding needs a name. So are ``localhost``, the address that the
    server is bound to, and the name of this machine.

    Attributes:
        names: Further names in lower case. ``.example.org`` allows every name below it, ``*`` allows every name.
    """

    names: frozenset[str]

    @classmethod
    def of(cls, *, bound_to: str, allowed: Iterable[str] = ()) -> "HostPolicy":
        """Make the policy of a server from its address, and from the names in its settings.

        Raises:
            StartupError: If one of them cannot be the name of a host.
        """
        names = {name.strip().lower().removesuffix(".") or "." for name in allowed if name.strip()}
        for name in names:
            if name != "*" and NAME.fullmatch(name) is None and not _is_address(name):
                raise StartupError(
                    "RLVITALS_ALLOWED_HOSTS must be names such as vitals.example.org, .example.org for all names below "
                    f"it, or *, without a scheme and a port, got {name[:100]!r}"
                )
        own = {"localhost", socket.gethostname().lower(), bound_to.lower()} - set(WILDCARDS)
        return cls(frozenset(own | names))

    def allows(self, authority: str) -> bool:
        """Whether a ``Host`` header (a host, possibly with a port) names this server."""
        parsed = AUTHORITY.fullmatch(authority.lower())
        if parsed is None:
            return False
        host = parsed["host"].removesuffix(".")
        if _is_address(host) or host in self.names or "*" in self.names:
            return True
        return any(name.startswith(".") and host.endswith(name) for name in self.names)


def _is_address(host: str) -> bool:
    return len(host) <= LONGEST_ADDRESS and _parses(host)


@functools.lru_cache(maxsize=256)
def _parses(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
