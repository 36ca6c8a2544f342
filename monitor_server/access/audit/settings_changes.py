"""Writes into the audit log which settings have changed since the last start of a collector of the same role.

Settings come from the environment and cannot be changed over HTTP, so the difference is recorded at each start. Values
are stored in their form for display: an address without its password, and files by their names.
"""

import re
import socket
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.settings import Settings
from monitor_server.store.address import shown_url
from monitor_server.store.database import Store
from monitor_server.text_safety.printable import printable

__all__ = ["describe_settings", "record_settings"]

CONFIGURATION: Final = Caller(name="configuration", scope=Scope.ADMIN)
LONGEST_VALUE: Final = 200
LONGEST_DETAIL: Final = 2_000
DIGEST: Final = re.compile(r" \(sha256 [0-9a-f]{12}\)$")


def record_settings(store: Store, settings: Settings, *, now: float) -> list[str]:
    """Record the settings of a start, with one audit entry if they differ from the last; return the changes.

    The first start of a role records its settings without an entry. A setting that an older version did not have counts
    as changed if its value is not the default.

    Raises:
        Unavailable: If the store does not answer.
    """
    shown, defaults = describe_settings(settings), describe_settings(Settings.model_construct())
    with store.write() as repositories:
        repositories.recorded_settings.lock()
        last = repositories.recorded_settings.read(settings.role)
        changed = [] if last is None else _changes(last, shown, defaults)
        if last != shown:
            repositories.recorded_settings.write(settings.role, shown)
        if changed:
            target = f"{settings.role} on {printable(socket.gethostname(), longest=LONGEST_VALUE)}"
            detail = printable("; ".join(changed), longest=LONGEST_DETAIL)
            record_change(repositories, CONFIGURATION, "settings.change", target, now=now, detail=detail)
    return changed


def describe_settings(settings: Settings) -> dict[str, str]:
    """Return the value of each setting in a form that an administrator may see."""
    values = {name: str(getattr(settings, name)) for name in Settings.model_fields}
    values["database_url"] = shown_url(settings.database_url)
    values["oidc_issuer"] = _without_credentials(values["oidc_issuer"])
    return {name: _shortened(value) for name, value in values.items()}


def _changes(last: dict[str, str], shown: dict[str, str], defaults: dict[str, str]) -> list[str]:
    return [
        f"RLVITALS_{name.upper()}: {before or 'empty'} -> {shown[name] or 'empty'}"
        for name in shown
        # An earlier version recorded no digest.
        if (before := last.get(name, defaults[name])) not in (shown[name], DIGEST.sub("", shown[name]))
    ]


def _shortened(value: str) -> str:
    """Return a value that fits; the digest of a longer one shows that its end has changed."""
    digest = f" (sha256 {sha256(value.encode()).hexdigest()[:12]})" if len(value) > LONGEST_VALUE else ""
    return printable(value, longest=LONGEST_VALUE) + digest


def _without_credentials(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "***"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
