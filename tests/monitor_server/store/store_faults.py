"""Whether a store writes, and the faults that it has counted."""

import contextlib

from monitor_server.errors import Unavailable


def writes(store):
    """Return whether a store writes."""
    with contextlib.suppress(Unavailable):
        store.probe()
        return True
    return False


def counted(store):
    """Return the number of each fault that the store has met."""
    return {fault: count for fault, count in store.faults.counts().items() if count}
