"""The size and the key-value store of the default process group, which ranks can read without a collective."""

from datetime import timedelta
from typing import Protocol

import torch
from torch import distributed

__all__ = ["KeyValueStore", "find_world_size", "open_store", "synchronize_device"]

# The process group needs the same store; if the store does not answer within this time, the training is dead.
STORE_TIMEOUT = timedelta(seconds=10)


class KeyValueStore(Protocol):
    """The part of `torch.distributed.Store` that is used here."""

    def set(self, key: str, value: str, /) -> None:
        """Write a value."""

    def get(self, key: str, /) -> bytes:
        """Read the value of an existing key."""

    def add(self, key: str, amount: int, /) -> int:
        """Add to a counter and return the sum."""

    def check(self, keys: list[str], /) -> bool:
        """Return at once whether the keys exist."""


def find_world_size() -> int:
    """Return the number of processes in the default process group, 1 without one."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def open_store(name: str) -> KeyValueStore:
    """Open a part of the default process group's store, on a separate connection."""
    shared = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - there is no public way to get it
    # With one connection, training's own requests to the store would wait for ours.
    store = shared.clone() if hasattr(shared, "clone") else shared
    store.set_timeout(STORE_TIMEOUT)
    return distributed.distributed_c10d.PrefixStore(f"rlvitals/{name}", store)


def synchronize_device() -> None:
    """Wait until the device has finished the step; the host may be ahead of it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
