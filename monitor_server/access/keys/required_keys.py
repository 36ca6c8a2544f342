"""Checks the conditions for keys before a collector listens."""

import ipaddress
import logging
from typing import Final
from urllib.parse import urlsplit

from monitor_server.access.keys.key_files import write_key_files
from monitor_server.errors import KeysMissing
from monitor_server.settings import Settings
from monitor_server.store.database import Store

__all__ = ["prepare_keys"]

log = logging.getLogger(__name__)

ADVICE: Final = (
    "other machines would reach the server at {host} (--host, RLVITALS_PUBLIC_URL or RLVITALS_ALLOWED_HOSTS), and no "
    "key exists; make one with `rlvitals keys create admin --scope admin`, or let the start make one "
    "(RLVITALS_KEY_FILES=admin:/path/of/a/file), or listen on --host 127.0.0.1 under no other name, or let anyone who "
    "reaches it read and write with --insecure"
)


def prepare_keys(store: Store, settings: Settings, *, now: float) -> None:
    """Write the key files of the settings, and check that a server has keys if other machines reach it.

    Raises:
        KeysMissing: If other machines can reach it, no key is required, and the settings do not allow this explicitly.
        StartupError: If a key file cannot be written.
    """
    for path in write_key_files(store, settings.key_files, now=now):
        log.info(
            "a new key was written to %s; `cat %s` shows it (Docker Compose: `docker compose exec collector cat %s`)",
            *(path, path, path),
        )
    if settings.insecure or settings.trusted_header or settings.oidc_issuer:
        return
    # A name of another machine means a proxy, whose requests come from the loopback whoever has sent them.
    allowed = [name.strip() for name in settings.allowed_hosts.split(",") if name.strip()]
    hosts = (settings.host, urlsplit(settings.link_url).hostname or "", *allowed)
    reached = [host for host in hosts if not _is_loopback(host)]
    if not reached:
        return
    with store.read() as repositories:
        if not repositories.api_keys.all():
            raise KeysMissing(ADVICE.format(host=reached[0]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
