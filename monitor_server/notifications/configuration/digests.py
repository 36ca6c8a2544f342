"""Digests of the settings of channels: whether a channel has changed since it began to fail, also across a restart."""

import hashlib
import json
import os
from typing import Final

from monitor_server.notifications.configuration.editing import plain_channel
from monitor_server.notifications.configuration.tables import Channel

__all__ = ["digest_of", "is_digest_of"]

SALT_BYTES: Final = 16
# A password in an address can be short, and whoever reads the database must not find it by trying many.
ROUNDS: Final = 2**12


def digest_of(channel: Channel, *, salt: bytes | None = None) -> str:
    """Return a salted digest of the settings of a channel, with its secrets.

    Args:
        channel: The channel.
        salt: Random bytes; None for new ones.
    """
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    text = json.dumps(plain_channel(channel), sort_keys=True)
    return (salt + hashlib.scrypt(text.encode(), salt=salt, n=ROUNDS, r=8, p=1, dklen=16)).hex()


def is_digest_of(digest: str, channel: Channel) -> bool:
    """Whether a digest is that of the settings of a channel."""
    return digest == digest_of(channel, salt=bytes.fromhex(digest)[:SALT_BYTES])
