"""The queue between the training thread and the batch processor, without threads."""

import pytest

from trainer_hooks.delivery import DropCounter, RecordQueue


def filled(*sizes, **limits):
    """Put items of these sizes, and return the queue and the counter."""
    drops = DropCounter()
    queue = RecordQueue(drops, **limits)
    for item, size in enumerate(sizes):
        queue.put(item, size)
    return queue, drops


def items(queue):
    """Remove and return all items."""
    return [queue.pop() for _ in range(len(queue))]


def test_items_leave_in_the_order_in_which_they_came():
    """Items leave in the order in which they came, and an empty queue raises an IndexError."""
    queue, drops = filled(1, 1, 1)
    assert items(queue) == [0, 1, 2]
    assert (queue.nbytes, drops.dropped_records) == (0, 0)
    with pytest.raises(IndexError):
        queue.pop()


def test_a_queue_that_is_full_drops_the_newest_item_and_counts_it():
    """Two of four items fit, and after one has left, one more fits."""
    queue, drops = filled(1, 1, 1, 1, max_records=2)
    assert drops["buffer_full"] == 2
    assert not queue.put("too late", 1)
    assert queue.pop() == 0
    assert queue.put("later", 1)
    assert items(queue) == [1, "later"]


def test_items_count_by_their_size():
    """Three items of 40 bytes do not fit into 100 bytes, but a single item of any size does."""
    queue, drops = filled(40, 40, 40, max_bytes=100)
    assert (queue.nbytes, drops["buffer_full"]) == (80, 1)
    assert items(queue) == [0, 1]
    queue.put("large", 1000)
    assert items(queue) == ["large"]
    assert drops["buffer_full"] == 1


def test_the_size_is_counted_anew_once_the_queue_is_empty():
    """A size that two threads have counted wrongly is corrected when the queue is empty."""
    (queue, _), others = filled(), []

    class Interrupted(int):
        def __radd__(self, other):  # another thread puts an item while the size of this one is added
            if not others:
                others.append(self)
                queue.put("of another thread", 20)
            return other + int(self)

    queue.put("interrupted", Interrupted(10))
    assert items(queue) == ["of another thread", "interrupted"]
    assert queue.nbytes == -20  # the size of one of them was lost
    queue.forget_size()
    assert queue.nbytes == 0


def test_a_closed_queue_drops_everything():
    """After close new items are counted as dropped, and waiting items can still be removed."""
    queue, drops = filled(1)
    queue.close()
    queue.put("late", 1)
    assert drops["unsent"] == 1
    assert items(queue) == [0]
