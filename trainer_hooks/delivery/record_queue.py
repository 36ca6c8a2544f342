"""The bounded queue in memory between the training thread and the batch processor. It never waits and takes no lock."""

from collections import deque
from typing import Generic, TypeVar

from trainer_hooks.delivery.drop_counter import DropCounter

__all__ = ["RecordQueue"]

MAX_RECORDS = 4096
# This holds 120 steps of 64 × 512 × 4 tokens, which may wait while the background thread encodes.
MAX_BYTES = 64 << 20

Item = TypeVar("Item")


class RecordQueue(Generic[Item]):
    """Holds the measurements of the training thread until the batch processor encodes them.

    The training thread only appends and never wakes the consumer: waking a thread at every put would add that thread's
    latency to the training step. Where the queue is full, the newest item is dropped and counted.

    Args:
        drops: Counts the dropped items.
        max_records: Largest number of items.
        max_bytes: Largest size of all items together. A single item is accepted whatever its size.
    """

    def __init__(self, drops: DropCounter, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self._drops = drops
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._items: deque[tuple[Item, int]] = deque()
        # The producer writes only the first number and the consumer only the second, so neither needs a lock. Where two
        # threads put at the same time, one addition may be lost; `forget_size` corrects that.
        self._bytes_in = 0
        self._bytes_out = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """Approximate bytes held by the items."""
        return self._bytes_in - self._bytes_out

    def put(self, item: Item, nbytes: int) -> bool:
        """Append an item that holds about ``nbytes`` of memory, or count it as dropped; never wait.

        Returns:
            Whether it was appended.
        """
        if self._is_closed:
            self._drops.count("unsent", "a step was logged after close")
        elif self._items and (
            len(self._items) >= self._max_records or self._bytes_in - self._bytes_out + nbytes > self._max_bytes
        ):
            self._drops.count("buffer_full", "steps arrive faster than they can be encoded; the newest was dropped")
        else:
            self._bytes_in += nbytes
            self._items.append((item, nbytes))
            return True
        return False

    def pop(self) -> Item:
        """Remove the oldest item and return it.

        Raises:
            IndexError: If the queue is empty.
        """
        item, nbytes = self._items.popleft()
        self._bytes_out += nbytes
        return item

    def forget_size(self) -> None:
        """Count the size from zero again; the consumer calls this when it has emptied the queue."""
        self._bytes_out = self._bytes_in

    def close(self) -> None:
        """Drop and count every item that is put from now on."""
        self._is_closed = True
