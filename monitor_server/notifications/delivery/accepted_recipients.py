"""Remembers what the recipients of a channel have accepted of its open message, so that a repeat leaves it out."""

from collections import OrderedDict
from typing import Final

from monitor_server.notifications.configuration.tables import Channel

__all__ = ["MAX_CHANNELS", "AcceptedRecipients"]

# A file has at most 32 channels; others are former ones, whose last messages may never be sent.
MAX_CHANNELS: Final = 64


class AcceptedRecipients:
    """What recipients have accepted of the open message of each channel, at most of `MAX_CHANNELS` channels.

    A restart forgets them, and so does a 65th channel for the one that was used longest ago. All recipients of that
    channel then get its message again.
    """

    def __init__(self) -> None:
        self._accepted: OrderedDict[str, tuple[str, Channel, set[str]]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of channels with an open message."""
        return len(self._accepted)

    def of(self, name: str, message_id: str, channel: Channel) -> set[str]:
        """Return what was accepted, to which a delivery adds; nothing if the message or the address is another."""
        id_, to, accepted = self._accepted.get(name, ("", None, set[str]()))
        if (id_, to) != (message_id, channel):
            accepted = set()
            self._accepted[name] = (message_id, channel, accepted)
        self._accepted.move_to_end(name)
        while len(self._accepted) > MAX_CHANNELS:
            self._accepted.popitem(last=False)
        return accepted

    def forget(self, name: str) -> None:
        """Forget the recipients of a channel whose message is sent or given up."""
        self._accepted.pop(name, None)
