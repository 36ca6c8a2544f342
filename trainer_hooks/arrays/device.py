"""Tensors that stay on the trainer's device. The only module outside callbacks, losses and probe that knows torch."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer_hooks.arrays import Pending
from trainer_hooks.arrays.host import HOST, Kind
from trainer_hooks.errors import RolloutsError

__all__ = ["DeviceArrays"]

Numbers = NDArray[np.float64]
SHOWN_AS: dict[Kind, type] = {"bool": bool, "integer": int, "float": float}


class DeviceArrays:
    """torch, on one device: everything is queued behind the trainer's work, and nothing waits for it but `fetched`.

    No value decides here what is computed next, because asking for one waits for the device.

    Args:
        device: Where the tensors are.
    """

    is_host = False
    xp = torch

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.doubts: list[Pending[None]] = []

    def taken(self, name: str, value: object) -> Tensor:
        tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(HOST.taken(name, value))
        # Small arrays, such as rewards, are often made on the host; staged by the driver, so nothing waits.
        return tensor.to(self._device, non_blocking=True)

    def kind(self, array: Tensor) -> Kind:
        if array.dtype is torch.bool:
            return "bool"
        return "float" if array.is_floating_point() else "other" if array.is_complex() else "integer"

    def floats(self, array: Tensor) -> Tensor:
        if not array.is_floating_point():
            return array.double()
        return array if array.dtype in (torch.float32, torch.float64) else array.float()

    def integers(self, array: Tensor) -> Tensor:
        return array.long()

    def booleans(self, array: Tensor) -> Tensor:
        return array.bool()

    def wide(self, array: Tensor) -> Tensor:
        return array.double()

    def places(self, mask: Tensor) -> Tensor:
        return torch.arange(mask.numel(), device=self._device)

    def count(self, flags: Tensor) -> Tensor:
        return flags.sum()

    def kept(self, values: Tensor, where: Tensor) -> Tensor:
        return torch.where(where, values, 0.0)

    def added(self, values: Tensor, places: Tensor, size: int) -> Tensor:
        # Not bincount, which waits for its largest value.
        sums = torch.zeros(*values.shape[:-1], size, dtype=torch.float64, device=self._device)
        return sums.index_add(-1, places, values.double())

    def runs(self, begins: Tensor) -> "DeviceRuns":
        return DeviceRuns(self, begins)

    def moments(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        kept, known = self._finite(values, where)
        return known.sum(), kept.sum(), (kept * kept).sum()

    def largest(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        known = ~torch.isnan(values) if where is None else ~torch.isnan(values) & where
        top = torch.where(known, values, -math.inf).max() if len(values) else known.sum()
        return known.any(), top

    def histogram(self, values: Tensor, where: Tensor | None, low: float, high: float, size: int) -> Tensor:
        kept, known = self._finite(values, where)
        places = torch.clip((kept - low) * (size / (high - low)), 0, size - 1).long()
        return self.added(known, places, size)

    def _finite(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """Give the values with 0 in place of what does not count, and which do."""
        wide = values.double()
        known = torch.isfinite(wide) if where is None else torch.isfinite(wide) & where
        return self.kept(wide, known), known

    def sorted(self, values: Tensor) -> Tensor:
        return torch.sort(values).values

    def order(self, *keys: Tensor) -> Tensor:
        order = torch.argsort(keys[-1], stable=True)
        for key in keys[-2::-1]:
            order = order[torch.argsort(key[order], stable=True)]
        return order

    def refuse_where(self, bad: Tensor, values: Tensor, rule: str) -> None:
        flat = bad.reshape(-1)
        first = torch.argmax(flat.to(torch.uint8))
        located = partial(_refuse_where, rule, tuple(values.shape), SHOWN_AS[self.kind(values)])
        self.doubts.append(Pending((flat.any(), first, values.reshape(-1).take(first)), located))

    def refuse_if(self, is_bad: Tensor, message: str) -> None:
        self.doubts.append(Pending((is_bad,), partial(_refuse_if, message)))

    def fetched(self, arrays: Sequence[Tensor]) -> list[float | Numbers]:
        # Now and then a number is on the host already.
        given = [torch.as_tensor(array).detach().to(self._device, torch.float64, non_blocking=True) for array in arrays]
        host = torch.cat([array.reshape(-1) for array in given]).cpu().numpy()
        parts = np.split(host, np.cumsum([array.numel() for array in given])[:-1])
        return [part if array.ndim else float(part[0]) for array, part in zip(given, parts, strict=True)]


class DeviceRuns:
    """Runs by the number of each value."""

    def __init__(self, library: DeviceArrays, begins: Tensor) -> None:
        self._library = library
        self._begins = begins
        self._numbers = torch.clip(torch.cumsum(begins, dim=0) - 1, 0, None)

    def added(self, values: Tensor) -> Tensor:
        return self._library.added(values, self._numbers, len(self._numbers))

    def first(self, values: Tensor) -> Tensor:
        return self.added(torch.where(self._begins, values, 0)).long()


def _refuse_where(rule: str, shape: tuple[int, ...], kind: type, *found: float) -> None:
    is_bad, first, value = found
    if is_bad:
        place = [int(index) for index in np.unravel_index(int(first), shape)]
        raise RolloutsError(f"{rule}, got {kind(value)} at {place}")


def _refuse_if(message: str, is_bad: float) -> None:
    if is_bad:
        raise RolloutsError(message)
