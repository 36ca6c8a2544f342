"""Operations on token arrays, in this process's memory by numpy or on the trainer's device by torch.

Signals are written once, with the functions that have the same name in both libraries (``where``, ``exp``, ``cumsum``,
...) and with the operations of `ArrayLibrary`, which differ. None of these has a shape that depends on data, so that
nothing waits for a device.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from trainer_hooks.arrays.numpy_backend import HOST, LENT, Kind

__all__ = ["HOST", "LENT", "Array", "ArrayLibrary", "Fetched", "Kind", "Pending", "Stretches", "library_of"]

Array: TypeAlias = Any  # a numpy array or a torch tensor
Fetched: TypeAlias = float | NDArray[Any]


Finished_co = TypeVar("Finished_co", covariant=True)


class Pending(msgspec.Struct, Generic[Finished_co], frozen=True):
    """A result that is made of numbers which may still be on the device.

    Attributes:
        numbers: Arrays of a size that does not depend on data.
        finish: Makes the result of the fetched numbers: floats for arrays without dimensions, else flat arrays.
    """

    numbers: tuple[Array, ...]
    finish: Callable[..., Finished_co]


class Stretches(Protocol):
    """Contiguous runs of values, such as the tokens of an action.

    On a device there are as many runs as values, because counting the runs would wait. Runs after the last one are
    empty, and every result for them is 0.
    """

    def sum(self, values: Array) -> Array:
        """Sum the values of each run along the last axis, in float64."""

    def take_first(self, values: Array) -> Array:
        """Return the first integer of each run."""


class ArrayLibrary(Protocol):
    """Operations that numpy and torch have under different names."""

    @property
    def is_host(self) -> bool:
        """Whether reading a value does not wait for a device."""

    @property
    def xp(self) -> Any:  # noqa: ANN401 - a module
        """The module numpy or torch, for functions that have the same name in both."""

    def convert(self, name: str, value: object) -> Array:
        """Convert an argument of the user to an array of this library, without a copy where possible.

        Raises:
            RolloutsError: If it is not a rectangular array.
        """

    def kind_of(self, array: Array) -> Kind:
        """Return the kind of an array's values."""

    def to_floats(self, array: Array) -> Array:
        """Convert to floats that nobody overwrites: float64 for integers, float32 for half precision."""

    def to_integers(self, array: Array) -> Array:
        """Convert to int64 that nobody overwrites."""

    def to_booleans(self, array: Array) -> Array:
        """Convert to bool that nobody overwrites."""

    def to_float64(self, array: Array) -> Array:
        """Convert to float64."""

    def make_flags(self, size: int) -> Array:
        """Return flags that are all False and may be set in place at later steps."""

    def select_places(self, mask: Array) -> Array:
        """Return the places of True in the flattened mask, or all places where counting them would wait."""

    def count(self, flags: Array) -> Array:
        """Count the True values."""

    def keep_where(self, values: Array, where: Array) -> Array:
        """Return the values where the flag is True, and 0 elsewhere."""

    def sum_by(self, values: Array, places: Array, size: int) -> Array:
        """Sum values by place along the last axis, in float64; ``size`` is the number of places."""

    def find_runs(self, begins: Array) -> "Stretches":
        """Find the runs, each of which begins at a flag; values before the first flag must not count."""

    def moments(self, values: Array, where: Array | None) -> tuple[Array, Array, Array]:
        """Compute count, Σx and Σx² of the finite values, of all or of those where ``where`` is True, in float64."""

    def largest(self, values: Array, where: Array | None) -> tuple[Array, Array]:
        """Return whether any value is not NaN, and the largest value, among all or those where ``where`` is True."""

    def histogram(self, values: Array, where: Array | None, low: float, high: float, size: int) -> Array:
        """Count the finite values, all or those where ``where`` is True, in equal bins; those beyond in end bins."""

    def sort(self, values: Array) -> Array:
        """Return the values in ascending order."""

    def argsort(self, *keys: Array) -> Array:
        """Return the stable order by the first key, then the second, ..."""

    @property
    def deferred_checks(self) -> Sequence[Pending[None]]:
        """Checks whose values are still on the device; finishing one raises a `RolloutsError` or does nothing."""

    def refuse_where(self, bad: Array, values: Array, rule: str) -> None:
        """Refuse the arrays if any place is bad, and name the first bad place; on a device this is a deferred check.

        Raises:
            RolloutsError: If any place is bad.
        """

    def refuse_if(self, is_bad: Array, message: str) -> None:
        """Refuse the arrays with this message if the flag is True; on a device this is a deferred check.

        Raises:
            RolloutsError: If the flag is True.
        """

    def fetch(self, arrays: Sequence[Array]) -> list[Fetched]:
        """Copy numbers to this process's memory, with one copy; this is the only operation that waits for the device.

        Arrays without dimensions become floats, and all others flat arrays.
        """


def library_of(array: object) -> ArrayLibrary:
    """Return the library for an array or a tensor: torch for a tensor on a device, else numpy.

    A tensor is recognised by its attribute ``device``; without such a tensor torch is not imported.
    """
    if isinstance(array, np.ndarray):
        return HOST
    device = getattr(array, "device", None)
    # Metal has no float64.
    if device is None or getattr(device, "type", "cpu") in ("cpu", "mps"):
        return HOST
    from trainer_hooks.arrays.torch_backend import DeviceArrays  # noqa: PLC0415 - torch is installed where there is a tensor

    return DeviceArrays(device)
