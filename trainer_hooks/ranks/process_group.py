"""What the ranks of a training share without a collective: the default process group's size and its store."""

from datetime import timedelta
from typing import Protocol

import torch
from torch import distributed

__all__ = ["Store", "settle", "shared_store", "world_size"]

# The store is as near as the process group itself; without it, that is as good as dead.
STORE_TIMEOUT = timedelta(seconds=10)


class Store(Protocol):
    """The part of `torch.distributed.Store` that is used here."""

    def set(self, key: str, value: str, /) -> None:
        """Write."""

    def get(self, key: str, /) -> bytes:
        """Read a key that is there."""

    def add(self, key: str, amount: int, /) -> int:
        """Count, and give the sum."""

    def check(self, keys: list[str], /) -> bool:
        """Say at once whether the keys are there."""


def world_size() -> int:
    """Give the number of processes in the default group, 1 without one."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def shared_store(name: str) -> Store:
    """Give a part of the default process group's store, on a connection of our own."""
    shared = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - there is no public way to it
    # Training's own use of the store must not have to wait for ours.
    store = shared.clone() if hasattr(shared, "clone") else shared
    store.set_timeout(STORE_TIMEOUT)
    return distributed.distributed_c10d.PrefixStore(f"rlvitals/{name}", store)


def settle() -> None:
    """Wait until the device has done the step; the processor may be ahead of it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
