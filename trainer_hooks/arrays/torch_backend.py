"""Operations on tensors that stay on the trainer's device, by torch. Imported only once a tensor on a device is met."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer_hooks.arrays import Pending
from trainer_hooks.arrays.numpy_backend import HOST, Kind
from trainer_hooks.errors import RolloutsError

__all__ = ["DeviceArrays"]

Numbers = NDArray[np.float64]
PYTHON_TYPES: dict[Kind, type] = {"bool": bool, "integer": int, "float": float}


class DeviceArrays:
    """torch on one device. Every operation is queued behind the trainer's work, and only `fetch` waits for it.

    No operation here depends on a value, because reading a value would wait for the device.

    Args:
        device: The device of the tensors.
    """

    is_host = False
    xp = torch

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.deferred_checks: list[Pending[None]] = []

    def convert(self, name: str, value: object) -> Tensor:
        tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(HOST.convert(name, value))
        # Small arrays, such as rewards, are often on the host. The driver stages their copies, so nothing waits.
        return tensor.to(self._device, non_blocking=True)

    def kind_of(self, array: Tensor) -> Kind:
        if array.dtype is torch.bool:
            return "bool"
        return "float" if array.is_floating_point() else "other" if array.is_complex() else "integer"

    def to_floats(self, array: Tensor) -> Tensor:
        if not array.is_floating_point():
            return array.double()
        return array if array.dtype in (torch.float32, torch.float64) else array.float()

    def to_integers(self, array: Tensor) -> Tensor:
        return array.long()

    def to_booleans(self, array: Tensor) -> Tensor:
        return array.bool()

    def to_float64(self, array: Tensor) -> Tensor:
        return array.double()

    def make_flags(self, size: int) -> Tensor:
        with torch.inference_mode(False):  # a tensor that is made in it can only be changed in it
            return torch.zeros(size, dtype=torch.bool, device=self._device)

    def select_places(self, mask: Tensor) -> Tensor:
        return torch.arange(mask.numel(), device=self._device)

    def count(self, flags: Tensor) -> Tensor:
        return flags.sum()

    def keep_where(self, values: Tensor, where: Tensor) -> Tensor:
        return torch.where(where, values, 0.0)

    def sum_by(self, values: Tensor, places: Tensor, size: int) -> Tensor:
        # Not bincount, which would wait for the largest place.
        sums = torch.zeros(*values.shape[:-1], size, dtype=torch.float64, device=self._device)
        return sums.index_add(-1, places, values.double())

    def find_runs(self, begins: Tensor) -> "DeviceRuns":
        return DeviceRuns(self, begins)

    def moments(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        kept, known = self._keep_finite(values, where)
        return known.sum(), kept.sum(), (kept * kept).sum()

    def largest(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        known = ~torch.isnan(values) if where is None else ~torch.isnan(values) & where
        top = torch.where(known, values, -math.inf).max() if len(values) else known.sum()
        return known.any(), top

    def histogram(self, values: Tensor, where: Tensor | None, low: float, high: float, size: int) -> Tensor:
        kept, known = self._keep_finite(values, where)
        places = torch.clip((kept - low) * (size / (high - low)), 0, size - 1).long()
        return self.sum_by(known, places, size)

    def _keep_finite(self, values: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the values with 0 in place of those that do not count or are not finite, and which values remain."""
        wide = values.double()
        known = torch.isfinite(wide) if where is None else torch.isfinite(wide) & where
        return self.keep_where(wide, known), known

    def sort(self, values: Tensor) -> Tensor:
        return torch.sort(values).values

    def argsort(self, *keys: Tensor) -> Tensor:
        order = torch.argsort(keys[-1], stable=True)
        for key in keys[-2::-1]:
            order = order[torch.argsort(key[order], stable=True)]
        return order

    def refuse_where(self, bad: Tensor, values: Tensor, rule: str) -> None:
        flat = bad.reshape(-1)
        first = torch.argmax(flat.to(torch.uint8))
        located = partial(_refuse_where, rule, tuple(values.shape), PYTHON_TYPES[self.kind_of(values)])
        self.deferred_checks.append(Pending((flat.any(), first, values.reshape(-1).take(first)), located))

    def refuse_if(self, is_bad: Tensor, message: str) -> None:
        self.deferred_checks.append(Pending((is_bad,), partial(_refuse_if, message)))

    def fetch(self, arrays: Sequence[Tensor]) -> list[float | Numbers]:
        # Some numbers are on the host already.
        given = [torch.as_tensor(array).detach().to(self._device, torch.float64, non_blocking=True) for array in arrays]
        host = torch.cat([array.reshape(-1) for array in given]).cpu().numpy()
        parts = np.split(host, np.cumsum([array.numel() for array in given])[:-1])
        return [part if array.ndim else float(part[0]) for array, part in zip(given, parts, strict=True)]


class DeviceRuns:
    """Runs, found by the number of the run at each value."""

    def __init__(self, library: DeviceArrays, begins: Tensor) -> None:
        self._library = library
        self._begins = begins
        self._numbers = torch.clip(torch.cumsum(begins, dim=0) - 1, 0, None)

    def sum(self, values: Tensor) -> Tensor:
        return self._library.sum_by(values, self._numbers, len(self._numbers))

    def take_first(self, values: Tensor) -> Tensor:
        return self.sum(torch.where(self._begins, values, 0)).long()


def _refuse_where(rule: str, shape: tuple[int, ...], kind: type, *found: float) -> None:
    is_bad, first, value = found
    if is_bad:
        place = [int(index) for index in np.unravel_index(int(first), shape)]
        raise RolloutsError(f"{rule}, got {kind(value)} at {place}")


def _refuse_if(message: str, is_bad: float) -> None:
    if is_bad:
        raise RolloutsError(message)
