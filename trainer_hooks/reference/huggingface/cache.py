"""A cache of keys and values for rows of different lengths, in buffers that are allocated once."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["RowCache"]


class RowCache:
    """Static buffers of keys and values; every row is written at its own next positions.

    A row's padding is written to the positions of its next tokens, or to a slot behind the last position. A query
    attends only to positions up to its own, which hold tokens by then, so it never attends to padding. Keys are stored
    as columns and values as rows, because for a single query the products along positions are then the fastest.

    Args:
        context: Positions of a row.
        device: Where the model is.
        dtype: The type of its scores.
    """

    def __init__(self, context: int, device: torch.device, dtype: torch.dtype) -> None:
        self.context = context
        self.device = device
        # The lengths are plain numbers, because reading them from a GPU would stall it at every token.
        self.lengths: list[int] = []
        self.longest = 0
        self.positions = torch.empty(0)
        self.mask: Tensor | None = None
        self._dtype = dtype
        self._rows = self._starts = torch.empty(0)
        self._buffers: dict[int, tuple[Tensor, Tensor]] = {}

    def advance(self, counts: Sequence[int], width: int) -> None:
        """Make room for so many more tokens of each row, in a padded chunk of ``width``; the first call makes the rows.

        Sets ``positions``, ``(b, width)``, and ``mask``, ``(b, 1, width, end)``: what is added to the scores of a
        query, 0 where it attends and −∞ where it does not; or None where it attends to all that is cached.
        """
        if not self.lengths:
            self._settle([0] * len(counts))
        self.lengths = [length + count for length, count in zip(self.lengths, counts, strict=True)]
        self.longest = max(self.lengths)
        self.positions = self._starts
        if width == min(counts) == 1:
            self._starts = self._starts + 1
        else:
            self.positions = (self._starts + torch.arange(width, device=self.device)).clamp_(max=self.context)
            self._starts = torch.tensor(self.lengths, device=self.device)[:, None]
        if width == 1 and min(self.lengths) == self.longest:
            self.mask = None
        else:
            unseen = torch.arange(self.longest, device=self.device) > self.positions[:, None, :, None]
            self.mask = torch.zeros(unseen.shape, dtype=self._dtype, device=self.device).masked_fill_(
                unseen, -torch.inf
            )

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's new keys and values, ``(b, width, heads, d)``, in place.

        Returns:
            All keys, ``(b · heads, d, end)``, and all values, ``(b · heads, end, d)``.
        """
        if layer not in self._buffers:
            batch, _, heads, size = keys.shape
            self._buffers[layer] = (
                keys.new_zeros(batch, heads, size, self.context + 1),
                values.new_zeros(batch, heads, self.context + 1, values.shape[3]),
            )
        all_keys, all_values = self._buffers[layer]
        at = self._rows, self.positions
        all_keys.permute(0, 3, 1, 2).index_put_(at, keys)
        all_values.permute(0, 2, 1, 3).index_put_(at, values)
        return all_keys.flatten(0, 1).narrow(2, 0, self.longest), all_values.flatten(0, 1).narrow(1, 0, self.longest)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order; a row that is named twice is there twice."""
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        self._buffers = {
            layer: (self._copy_rows(keys, index, 3), self._copy_rows(values, index, 2))
            for layer, (keys, values) in self._buffers.items()
        }
        self._settle([self.lengths[row] for row in rows])

    def _copy_rows(self, buffer: Tensor, index: Tensor, dim: int) -> Tensor:
        """Copy these rows of a buffer; positions that were never written are not copied."""
        kept = buffer.new_zeros(len(index), *buffer.shape[1:])
        kept.narrow(dim, 0, self.longest).copy_(buffer.narrow(dim, 0, self.longest).index_select(0, index))
        return kept

    def _settle(self, lengths: list[int]) -> None:
        """Set the number of rows and their lengths."""
        self.lengths = lengths
        self._starts = torch.tensor(lengths, dtype=torch.long, device=self.device)[:, None]
        self._rows = torch.arange(len(lengths), device=self.device)[:, None]
