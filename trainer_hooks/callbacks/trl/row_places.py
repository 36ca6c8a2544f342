"""Finds rows of a rollout batch again after a subclass of TRL's trainers has reordered, repeated or left out some."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["find_places", "take_rows"]


def find_places(
    rows: Sequence[Sequence[int]], scored: Sequence[Sequence[int]], labels: Sequence[object], *, padding: int
) -> list[int | None]:
    """Find each row among the responses that were scored, by its tokens.

    Args:
        rows: Token ids of each row of the batch, padded at the end.
        scored: Token ids of each response that was scored, in the order of scoring.
        labels: The labels of each response that was scored; they must not be given to a row of another response.
        padding: The id that rows are padded with.

    Returns:
        The place of each row; None where it was not scored, or where responses of the same tokens have other labels.
    """
    keys = [_without_padding(tokens, padding) for tokens in scored]
    wanted = [_without_padding(tokens, padding) for tokens in rows]
    if wanted == keys:
        return [*range(len(keys))]
    place_of: dict[tuple[int, ...], int | None] = {}
    for place, key in enumerate(keys):
        first = place_of.setdefault(key, place)
        if first is not None and labels[first] != labels[place]:
            place_of[key] = None
    return [place_of.get(key) for key in wanted]


def take_rows(column: Tensor, places: Sequence[int | None], missing: float) -> Tensor:
    """Return the rows of a column at these places, and a row of ``missing`` for None."""
    rows = torch.cat([column, torch.full_like(column[:1], missing)])
    return rows[[len(column) if place is None else place for place in places]]


def _without_padding(tokens: Sequence[int], padding: int) -> tuple[int, ...]:
    """Leave out the padding at the end, and with it the end of a response where both are the same token."""
    length = len(tokens)
    while length and tokens[length - 1] == padding:
        length -= 1
    return tuple(tokens[:length])
