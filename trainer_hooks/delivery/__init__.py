"""Carries records to the collector without ever slowing or endangering training.

Courier (thread: packs and seals) -> Outbox (on disk in a Spool, else in memory) -> Sender (thread) -> BackingOff ->
HttpTransport. The HTTP transport is not imported here: urllib3 is loaded only by who connects.
"""

from trainer_hooks.delivery.courier import Courier, Packed, Shipper
from trainer_hooks.delivery.outbox import Outbox
from trainer_hooks.delivery.spool import Spool
from trainer_hooks.delivery.tally import Tally
from trainer_hooks.delivery.transport import BackingOff, RefusedError, Transport, UnavailableError

__all__ = [
    "BackingOff",
    "Courier",
    "Outbox",
    "Packed",
    "RefusedError",
    "Shipper",
    "Spool",
    "Tally",
    "Transport",
    "UnavailableError",
]
