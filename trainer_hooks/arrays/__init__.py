"""Where token arrays are kept and worked on: in this process's memory by numpy, or on the trainer's device by torch.

Signals are written once, in what the two libraries call alike (``where``, ``exp``, ``cumsum``, ...) and in the few
operations of `ArrayLibrary`, where they differ. Nothing there has a shape that depends on data, so that a device need
not be waited for.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays.host import HOST, LENT, Kind

__all__ = ["HOST", "LENT", "Array", "ArrayLibrary", "Fetched", "Kind", "Pending", "Runs", "library_of"]

Array: TypeAlias = Any  # a numpy array, or a torch tensor
Fetched: TypeAlias = float | NDArray[Any]


Finished_co = TypeVar("Finished_co", covariant=True)


class Pending(msgspec.Struct, Generic[Finished_co], frozen=True):
    """Something made of numbers that may still be on the device.

    Attributes:
        numbers: Arrays of a size that does not depend on data.
        finish: Takes them in this process's memory: those without dimensions as floats, the others flat.
    """

    numbers: tuple[Array, ...]
    finish: Callable[..., Finished_co]


class Runs(Protocol):
    """Neighbours that belong together.

    On a device there are as many runs as values, because counting them would wait: those after the last are empty, and
    whatever is said of them is 0.
    """

    def added(self, values: Array) -> Array:
        """Add values up within each run along the last axis, into float64."""

    def first(self, values: Array) -> Array:
        """Give the integers with which the runs begin."""


class ArrayLibrary(Protocol):
    """What numpy and torch do alike under other names."""

    @property
    def is_host(self) -> bool:
        """Whether a value may be looked at without waiting for a device."""

    @property
    def xp(self) -> Any:  # noqa: ANN401 - a module
        """The library itself, numpy or torch, for what the two call alike."""

    def taken(self, name: str, value: object) -> Array:
        """Give what the user gave as an array of this library, where it is kept; not yet copied.

        Raises:
            RolloutsError: If it is no rectangular array.
        """

    def kind(self, array: Array) -> Kind:
        """Say what an array holds."""

    def floats(self, array: Array) -> Array:
        """Give floats that nobody overwrites: float64 for integers, float32 for half precision."""

    def integers(self, array: Array) -> Array:
        """Give int64 that nobody overwrites."""

    def booleans(self, array: Array) -> Array:
        """Give bool that nobody overwrites."""

    def wide(self, array: Array) -> Array:
        """Give float64."""

    def places(self, mask: Array) -> Array:
        """Give the places of a flat array that are looked at: the true ones, or all where counting them would wait."""

    def count(self, flags: Array) -> Array:
        """Count what is true."""

    def kept(self, values: Array, where: Array) -> Array:
        """Give values with 0 in place of those that do not count."""

    def added(self, values: Array, places: Array, size: int) -> Array:
        """Add values up by place along the last axis, into float64 of this size there."""

    def runs(self, begins: Array) -> "Runs":
        """Prepare to add values up in runs, each of which begins at a flag; before the first nothing may count."""

    def moments(self, values: Array, where: Array | None) -> tuple[Array, Array, Array]:
        """Give count, Σx and Σx² of the finite values, all or where they count, summed in float64."""

    def largest(self, values: Array, where: Array | None) -> tuple[Array, Array]:
        """Give whether there is a value that is not NaN, among all or where they count, and the largest."""

    def histogram(self, values: Array, where: Array | None, low: float, high: float, size: int) -> Array:
        """Count the finite values, all or where they count, in equal bins; those beyond the ends in the end bins."""

    def sorted(self, values: Array) -> Array:
        """Give values in ascending order."""

    def order(self, *keys: Array) -> Array:
        """Give the stable order by the first key, then the second, ..."""

    @property
    def doubts(self) -> Sequence[Pending[None]]:
        """Refusals that a device has still to decide; finishing one raises a `RolloutsError` or does nothing."""

    def refuse_where(self, bad: Array, values: Array, rule: str) -> None:
        """Refuse the arrays if any place is bad, naming the first one; on a device this becomes a doubt.

        Raises:
            RolloutsError: If any place is bad.
        """

    def refuse_if(self, is_bad: Array, message: str) -> None:
        """Refuse the arrays with this message; on a device this becomes a doubt.

        Raises:
            RolloutsError: If it is so.
        """

    def fetched(self, arrays: Sequence[Array]) -> list[Fetched]:
        """Give numbers in this process's memory, with one copy, which is all that ever waits for the device.

        What has no dimensions comes as a float, anything else as a flat array.
        """


def library_of(array: object) -> ArrayLibrary:
    """Give the library for an array or a tensor: the device's where it is on one, else numpy.

    A tensor is known by its ``device``; torch is not imported for anything else.
    """
    if isinstance(array, np.ndarray):
        return HOST
    device = getattr(array, "device", None)
    # Metal has no float64.
    if device is None or getattr(device, "type", "cpu") in ("cpu", "mps"):
        return HOST
    from trainer_hooks.arrays.device import DeviceArrays  # noqa: PLC0415 - who has a tensor has torch

    return DeviceArrays(device)
