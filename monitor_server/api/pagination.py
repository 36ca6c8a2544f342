"""Lists of the API: ``{"items": [...], "next": cursor or null}``, one bounded part in each answer."""

from collections.abc import Callable, Iterable
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query

from monitor_server.access.cursors import hide, reveal
from monitor_server.api.schemas import Schema

__all__ = ["MAX_NUMBERS", "Cursor", "ItemList", "LargeCursor", "PageLimit", "StepNumber", "item_list"]

Item = TypeVar("Item")
Row = TypeVar("Row")

LARGEST_NUMBER = 2**31 - 1  # of most rows; PostgreSQL refuses to compare a larger one
# About 4 MB of JSON: an answer is held as a whole, once for each client that reads slowly.
MAX_NUMBERS = 50_000


class ItemList(Schema, Generic[Item]):
    """One part of a list; ``next`` is the cursor of the next part, or null at the end."""

    items: list[Item]
    next: str | None = None


def item_list(
    read: Callable[[int], Iterable[Row]],
    *,
    limit: int,
    item: Callable[[Row], Item],
    cursor: Callable[[Row], int],
    weight: Callable[[Row], int] = lambda _: 0,
) -> ItemList[Item]:
    """Read one part of a list, and determine whether another part follows.

    Args:
        read: Reads at most the given number of rows. A generator is read as far as the answer has room.
        limit: The largest number of items in the answer. One more row is read, to see whether the list continues.
        item: Makes the item of a row.
        cursor: Returns the cursor that continues the list after a row.
        weight: The number of numbers in a row's item. An answer has at most `MAX_NUMBERS` of them, or a single item.
    """
    fitting: list[Row] = []
    total, following = 0, None
    for row in read(limit + 1):
        total += weight(row)
        if fitting and (len(fitting) >= limit or total > MAX_NUMBERS):
            following = str(hide(cursor(fitting[-1])))
            break
        fitting.append(row)
    return ItemList(items=[item(row) for row in fitting], next=following)


def _large_cursor(
    cursor: Annotated[str | None, Query(pattern="^[0-9]{1,18}$", description="`next` of the previous answer")] = None,
) -> int | None:
    return None if cursor is None else reveal(int(cursor))  # 18 digits fit 63 bits


# Of a list whose rows have numbers of 64 bits, such as steps.
LargeCursor = Annotated[int | None, Depends(_large_cursor)]


def _cursor(cursor: LargeCursor) -> int | None:
    # A cursor of another key reveals a number that no row has, and that columns cannot hold.
    return None if cursor is None else min(cursor, LARGEST_NUMBER)


Cursor = Annotated[int | None, Depends(_cursor)]
StepNumber = Annotated[
    int, Query(ge=0, le=2**53, description="A step, at most the largest exact whole number of JSON, 2^53")
]
PageLimit = Annotated[int, Query(ge=1, le=1000, description="Largest number of items in one answer")]
