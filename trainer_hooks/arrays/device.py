"""Tensors that stay on the trainer's device. The only module outside callbacks, losses and probe that knows torch."""

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
        return torch.zeros(size, dtype=torch.float64, device=self._device).index_add(0, places, values.double())

    def runs(self, numbers: Tensor, size: int) -> "DeviceRuns":
        return DeviceRuns(self, numbers, size)

    def histogram(self, places: Tensor, where: Tensor, size: int) -> Tensor:
        return self.added(where, places, size)

    def sorted(self, values: Tensor) -> Tensor:
        return torch.sort(values).values

    def order(self, *keys: Tensor) -> Tensor:
        order = torch.argsort(keys[-1], stable=True)
        for key in keys[-2::-1]:
            order = order[torch.argsort(key[order], stable=True)]
        return order

    def refuse_where(self, bad: Tensor, values: Tensor, rule: str) -> None:
        flat = bad.reshape(-1)
        first = torch.argmax(flat.to(torch.uint8)).reshape(1)
        located = partial(_refuse_where, rule, tuple(values.shape), SHOWN_AS[self.kind(values)])
        self.doubts.append(Pending((flat.any(), first, values.reshape(-1)[first]), located))

    def refuse_if(self, is_bad: Tensor, message: str) -> None:
        self.doubts.append(Pending((is_bad,), partial(_refuse_if, message)))

    def fetched(self, arrays: Sequence[Tensor]) -> list[NDArray[np.float64]]:
        # Now and then a number is on the host already.
        flat = [
            torch.as_tensor(array).detach().to(self._device, torch.float64, non_blocking=True).reshape(-1)
            for array in arrays
        ]
        host = torch.cat(flat).cpu().numpy()
        return np.split(host, np.cumsum([array.numel() for array in flat])[:-1])


class DeviceRuns:
    """Runs by the number of each value."""

    def __init__(self, library: DeviceArrays, numbers: Tensor, size: int) -> None:
        self._library = library
        self._numbers = numbers
        self._size = size

    def added(self, values: Tensor) -> Tensor:
        return self._library.added(values, self._numbers, self._size)


def _refuse_where(rule: str, shape: tuple[int, ...], kind: type, *found: Numbers) -> None:
    is_bad, first, value = found
    if is_bad[0]:
        place = [int(index) for index in np.unravel_index(int(first[0]), shape)]
        raise RolloutsError(f"{rule}, got {kind(value[0])} at {place}")


def _refuse_if(message: str, is_bad: Numbers) -> None:
    if is_bad[0]:
        raise RolloutsError(message)
