"""Checks whether a collector can use channels before they are put into force, and states the reason if it cannot."""

from urllib.parse import urlsplit

from monitor_server.action_links.signing import LinkSecrets
from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.checking import find_useless
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import NotificationFile
from monitor_server.notifications.delivery.channels import check_channels
from monitor_server.settings import Settings

__all__ = ["channel_networks", "check_usable"]


def channel_networks(settings: Settings) -> Networks:
    """Return the networks that channels saved over HTTP may connect to.

    Raises:
        StartupError: If the settings contain anything other than networks.
    """
    names = [name.strip() for name in settings.channel_networks.split(",") if name.strip()]
    try:
        return Networks(names)
    except ValueError as error:
        raise StartupError(f"RLVITALS_CHANNEL_NETWORKS must be networks such as 10.0.0.0/8: {error}") from error


def check_usable(file: NotificationFile, *, settings: Settings, networks: Networks | None = None) -> None:
    """Check that Apprise recognises the addresses, that routes name kinds, and that action links can be made.

    Args:
        file: The channels.
        settings: Of the collector.
        networks: The networks that the channels may connect to; all if None.

    Raises:
        StartupError: If a check fails, with the place and the condition that must hold.
    """
    if problems := find_useless(file):
        raise StartupError(problems[0])
    for name, channel in file.channels.items():
        if networks is not None and networks.refuse(_host(channel.url.get_secret_value())):
            raise StartupError(
                f"channels.{name}.url must have a public address, or one in a network of RLVITALS_CHANNEL_NETWORKS "
                "(it is not shown)"
            )
    check_channels(file, networks=networks)
    acting = [name for name, channel in file.channels.items() if channel.actions]
    if acting:
        if not settings.public_url:
            raise StartupError(
                f"channels.{acting[0]}.actions needs RLVITALS_PUBLIC_URL, the address at which its readers open links"
            )
        LinkSecrets(settings.link_secret_file).check()


def _host(url: str) -> str:
    """Return the host of an address, also of one for Apprise; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that do not close; Apprise reports whether the address is valid
        return ""
