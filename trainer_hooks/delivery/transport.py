"""The interface of what carries an encoded batch to the collector."""

from typing import Protocol

from trainer_hooks.wire import Receipt

__all__ = ["Transport"]


class Transport(Protocol):
    """Carries one encoded batch and returns the receipt."""

    def send(self, body: bytes) -> Receipt:
        """Deliver a msgpack batch.

        Raises:
            UnavailableError: If it should be sent again later.
            RefusedError: If it should not.
        """
