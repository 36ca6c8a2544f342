"""The size and the key-value store of the default process group, which ranks can read without a collective."""

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from torch import distributed

__all__ = ["KeyValueStore", "find_group", "find_world_size", "open_store", "synchronize_device"]

# Where a process holds the store and stands still for seconds, so do the collectives. Whoever waits for the store then
# loses nothing, but who does not wait may miss a step that the others have agreed on. A store that does not answer for
# longer must not keep a training from going on without it.
STORE_SECONDS = 60.0
# Where the interpreter ends while a thread is in torch's code, that thread aborts the process when it comes back. A
# store whose process ends at the same time, or for a collector as long as this one, ends its requests within this time.
EXIT_SECONDS = 5.0

Result = TypeVar("Result")

# The threads that wait for a store's answer.
_asking: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


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


class BoundedStore:
    """A store that raises a TimeoutError where a request takes too long, and at once at each request after that.

    It also raises a RuntimeError once there is another process group, because its ranks are others.

    The timeout of torch's own stores is one for keys that do not exist yet. A server that stands still is waited for
    without an end.

    Args:
        store: Answers the requests.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._group = find_group()
        self._is_gone = False

    def set(self, key: str, value: str, /) -> None:
        """Write a value."""
        self._ask(lambda: self._store.set(key, value))

    def get(self, key: str, /) -> bytes:
        """Read the value of an existing key."""
        return self._ask(lambda: self._store.get(key))

    def add(self, key: str, amount: int, /) -> int:
        """Add to a counter and return the sum."""
        return self._ask(lambda: self._store.add(key, amount))

    def check(self, keys: list[str], /) -> bool:
        """Return whether the keys exist."""
        return self._ask(lambda: self._store.check(keys))

    def _ask(self, request: Callable[[], Result]) -> Result:
        if self._is_gone:
            raise TimeoutError("the process group's store did not answer before, and is not asked again")
        if find_group() is not self._group:
            raise RuntimeError("the process group has been replaced or destroyed; watch the training with a new object")
        try:
            return _within_limit(request)
        except TimeoutError:
            self._is_gone = True
            raise


def find_group() -> object:
    """Return the default process group, None without one."""
    return distributed.group.WORLD if distributed.is_available() else None


def find_world_size() -> int:
    """Return the number of processes in the default process group, 1 without one."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def open_store(name: str) -> KeyValueStore:
    """Open a part of the default process group's store, on a separate connection.

    Raises:
        TimeoutError: If the store does not answer.
        DistNetworkError: If the store is gone.
    """
    shared = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - there is no public way to get it
    # With one connection, training's own requests to the store would wait for ours. The store's timeout stays as it is,
    # because some stores have it in common with their clones.
    store = _within_limit(shared.clone) if hasattr(shared, "clone") else shared
    return BoundedStore(distributed.distributed_c10d.PrefixStore(f"rlvitals/{name}", store))


def synchronize_device() -> None:
    """Wait until the device has finished the step; the host may be ahead of it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _within_limit(request: Callable[[], Result]) -> Result:
    """Return the result of a request.

    Raises:
        TimeoutError: If it takes longer than `STORE_SECONDS`.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            results.append(request())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that asks
            errors.append(error)
        has_ended.set()

    has_ended = threading.Event()
    thread = threading.Thread(target=ask, name="rlvitals-store", daemon=True)
    try:
        thread.start()
        _asking.add(thread)
    except RuntimeError:  # the process may have no more threads
        ask()
    has_ended.wait(STORE_SECONDS)
    for error in errors:
        raise error
    if not results:
        raise TimeoutError(f"the process group's store must answer within {STORE_SECONDS:.0f} s, got no answer")
    return results[0]


def _wait_for_requests() -> None:
    deadline = time.monotonic() + EXIT_SECONDS
    for thread in list(_asking):
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_wait_for_requests)
