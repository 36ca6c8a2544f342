"""Lists of the API: ``{"items": [...], "next": cursor or null}``, one bounded part in each answer."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query

from monitor_server.api.schemas import Schema
from monitor_server.errors import InvalidField

__all__ = ["Cursor", "ItemList", "Limit", "item_list"]

Item = TypeVar("Item")
Row = TypeVar("Row")


class ItemList(Schema, Generic[Item]):
    """One part of a list; ``next`` is the cursor of the part that follows, or null at the end."""

    items: list[Item]
    next: str | None = None


def item_list(
    read: Callable[[int], Sequence[Row]],
    *,
    limit: int,
    item: Callable[[Row], Item],
    cursor: Callable[[Row], int],
) -> ItemList[Item]:
    """Read one part of a list, and find out whether another part follows.

    Args:
        read: Reads at most as many rows as its argument says.
        limit: The most items in the answer. One row more is read, to see whether the list goes on.
        item: Makes the item of a row.
        cursor: Returns the cursor that continues the list after a row.
    """
    rows = read(limit + 1)
    following = str(cursor(rows[limit - 1])) if len(rows) > limit else None
    return ItemList(items=[item(row) for row in rows[:limit]], next=following)


def _cursor(cursor: Annotated[str | None, Query(description="`next` of the part before")] = None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):  # noqa: PLR2004 - fits 63 bits
        raise InvalidField(f"cursor must be the `next` of an earlier answer, got {cursor[:40]!r}")
    return int(cursor)


Cursor = Annotated[int | None, Depends(_cursor)]
Limit = Annotated[int, Query(ge=1, le=1000, description="Most items in one answer")]
