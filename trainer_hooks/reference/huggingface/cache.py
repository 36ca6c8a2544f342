"""Keys and values of rows that stand at different lengths, in buffers that are made once."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["RowCache"]


class RowCache:
    """Static buffers of keys and values; every row is written at its own next positions.

    A row's padding goes to a slot behind the last position, and a query sees the positions up to its own, all of them
    written: so nothing that was padded is ever seen.

    Args:
        context: Positions of a row.
        device: Where the model is.
    """

    def __init__(self, context: int, device: torch.device) -> None:
        self.context = context
        self.device = device
        self.longest = 0
        self.positions = torch.empty(0)
        self.visible: Tensor | None = None
        # Lengths are plain numbers: asking a GPU for them would stall it once a token.
        self._lengths: list[int] = []
        self._slots: dict[int, Tensor] = {}
        self._buffers: dict[int, tuple[Tensor, Tensor]] = {}

    def advance(self, counts: Sequence[int], width: int) -> None:
        """Make room for so many more tokens of each row, in a padded chunk of ``width``; the first call makes the rows.

        Sets ``positions``, ``(b, width)``, and ``visible``, bool ``(b, 1, width, end)``: the cached positions that each
        of them attends to, or None where that is all of them.
        """
        starts = self._lengths or [0] * len(counts)
        self._lengths = [start + count for start, count in zip(starts, counts, strict=True)]
        self.longest = max(self._lengths)
        if is_aligned := width == min(counts) == 1:
            self.positions = torch.tensor(starts, device=self.device)[:, None]
        else:
            padded = [
                [*range(start, end), *[self.context] * (width - end + start)]
                for start, end in zip(starts, self._lengths, strict=True)
            ]
            self.positions = torch.tensor(padded, device=self.device)
        self._slots = {}
        if is_aligned and min(self._lengths) == self.longest:
            self.visible = None
        else:
            keys = torch.arange(self.longest, device=self.device)
            self.visible = (keys <= self.positions[:, :, None])[:, None]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's new keys and values, ``(b, heads, width, d)``, in place; give all, ``(b, heads, end, d)``."""
        if layer not in self._buffers:
            self._buffers[layer] = self._empty(keys), self._empty(values)
        all_keys, all_values = self._buffers[layer]
        slots = self._slots_of(keys.shape[1])
        all_keys.flatten(0, 2).index_copy_(0, slots, keys.flatten(0, 2))
        all_values.flatten(0, 2).index_copy_(0, slots, values.flatten(0, 2))
        return all_keys.narrow(2, 0, self.longest), all_values.narrow(2, 0, self.longest)

    def _slots_of(self, heads: int) -> Tensor:
        """Give where the new positions of each row and head stand in a buffer, found once for all layers."""
        if heads not in self._slots:
            first = torch.arange(len(self._lengths) * heads, device=self.device) * (self.context + 1)
            self._slots[heads] = (first.view(-1, heads, 1) + self.positions[:, None]).flatten()
        return self._slots[heads]

    def _empty(self, like: Tensor) -> Tensor:
        batch, heads, _, size = like.shape
        return like.new_zeros(batch, heads, self.context + 1, size)

    def keep(self, rows: Sequence[int]) -> None:
        """Make these the rows: others are dropped, one that is named twice is there twice."""
        self._lengths = [self._lengths[row] for row in rows]
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        self._buffers = {layer: (keys[index], values[index]) for layer, (keys, values) in self._buffers.items()}
