"""Carries records to the collector without ever slowing or endangering training.

Courier (thread) -> Outbox (waits for the receipt; a disk spool's place) -> BackingOff -> HttpTransport.
The HTTP transport is not imported here: urllib3 is loaded only by who connects.
"""

from trainer_hooks.delivery.courier import Courier, Shipper
from trainer_hooks.delivery.outbox import MemoryOutbox, Outbox, Packed
from trainer_hooks.delivery.tally import Tally
from trainer_hooks.delivery.transport import BackingOff, RefusedError, Transport, UnavailableError

__all__ = [
    "BackingOff",
    "Courier",
    "MemoryOutbox",
    "Outbox",
    "Packed",
    "RefusedError",
    "Shipper",
    "Tally",
    "Transport",
    "UnavailableError",
]
