"""Operations on arrays in this process's memory, by numpy."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainer_hooks.errors import RolloutsError

__all__ = ["HOST", "LENT", "HostArrays", "Kind"]

Kind: TypeAlias = Literal["bool", "integer", "float", "other"]
KINDS: dict[str, Kind] = {"b": "bool", "i": "integer", "u": "integer", "f": "float"}


class HostArrays:
    """numpy; tensors are converted to arrays. Shapes may depend on data, so only action tokens are read.

    Args:
        copies: Whether arrays are copied, because their owner may overwrite them.
    """

    is_host = True
    deferred_checks = ()

    def __init__(self, *, copies: bool = True) -> None:
        self._copies = copies

    xp = np

    def convert(self, name: str, value: object) -> NDArray[Any]:
        if type(value) is np.ndarray:
            return value
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            # numpy would go on with the numbers below the mask.
            raise RolloutsError(
                f"{name} must have no masked element, got a masked array of numpy; give its data, and mask them in mask"
            )
        try:
            return np.asarray(_convert_tensor(value))
        except (TypeError, ValueError, RuntimeError) as error:  # torch raises the last one, for a nested tensor
            raise RolloutsError(f"{name} must be a rectangular array of numbers: {error}") from error

    def kind_of(self, array: NDArray[Any]) -> Kind:
        return KINDS.get(array.dtype.kind, "other")

    def to_floats(self, array: NDArray[Any]) -> NDArray[np.floating]:
        if array.dtype.kind in "iu":
            return _make_read_only(array.astype(np.float64, copy=self._copies))
        dtype = array.dtype if array.dtype.itemsize in (4, 8) else np.float32
        return _make_read_only(array.astype(dtype, copy=self._copies))

    def to_integers(self, array: NDArray[Any]) -> NDArray[np.int64]:
        return _make_read_only(array.astype(np.int64, copy=self._copies))

    def to_booleans(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        return _make_read_only(array.astype(np.bool_, copy=self._copies))

    def to_float64(self, array: NDArray[Any]) -> NDArray[np.float64]:
        return array.astype(np.float64, copy=False)

    def make_flags(self, size: int) -> NDArray[np.bool_]:
        return np.zeros(size, bool)

    def select_places(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.flatnonzero(mask).astype(np.int64, copy=False)

    def count(self, flags: NDArray[np.bool_]) -> int:
        return int(np.count_nonzero(flags))

    def keep_where(self, values: NDArray[np.float64], where: NDArray[np.bool_]) -> NDArray[np.float64]:
        return values if np.count_nonzero(where) == where.size else np.where(where, values, 0.0)

    def sum_by(self, values: NDArray[Any], places: NDArray[np.integer], size: int) -> NDArray[np.float64]:
        if values.ndim > 1:
            return np.array([self.sum_by(row, places, size) for row in values])
        return np.bincount(places, weights=values, minlength=size).astype(np.float64, copy=False)

    def find_runs(self, begins: NDArray[np.bool_]) -> "HostRuns":
        return HostRuns(begins)

    def moments(
        self, values: NDArray[Any], where: NDArray[np.bool_] | None
    ) -> tuple[int, np.floating[Any], np.floating[Any]]:
        chosen = (
            values.astype(np.float64, copy=False) if where is None else values[where].astype(np.float64, copy=False)
        )
        # Not a dot product, because BLAS would use threads that the training needs.
        squares = np.add.reduce(chosen * chosen)
        if not np.isfinite(squares):
            chosen = chosen[np.isfinite(chosen)]
            squares = np.add.reduce(chosen * chosen)
        return len(chosen), np.add.reduce(chosen), squares

    def largest(self, values: NDArray[Any], where: NDArray[np.bool_] | None) -> tuple[bool, np.floating[Any]]:
        chosen = values if where is None else values[where]
        top = np.fmax.reduce(chosen, initial=-np.inf)
        return bool(top > -np.inf or not np.isnan(chosen).all()), top

    def histogram(
        self, values: NDArray[Any], where: NDArray[np.bool_] | None, low: float, high: float, size: int
    ) -> NDArray[np.int64]:
        known = np.isfinite(values) if where is None else np.isfinite(values) & where
        chosen = values if np.count_nonzero(known) == known.size else values[known]
        places = ((self.to_float64(chosen) - low) * (size / (high - low))).clip(0, size - 1)
        return np.bincount(places.astype(np.int64), minlength=size)

    def sort(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.sort(values)

    def argsort(self, *keys: NDArray[Any]) -> NDArray[np.intp]:
        return np.lexsort(keys[::-1])

    def refuse_where(self, bad: NDArray[np.bool_], values: NDArray[Any], rule: str) -> None:
        if bad.any():
            place = tuple(int(index) for index in np.argwhere(bad)[0])
            raise RolloutsError(f"{rule}, got {values[place]} at {list(place)}")

    def refuse_if(self, is_bad: np.bool_, message: str) -> None:
        if is_bad:
            raise RolloutsError(message)

    def fetch(self, arrays: Sequence[Any]) -> list[float | NDArray[Any]]:
        # Most are counts and sums, which numpy returns as numbers.
        return [array.reshape(-1) if isinstance(array, np.ndarray) and array.ndim else float(array) for array in arrays]


class HostRuns:
    """Runs, found by where they start: summing takes a sixth of the time of summing by place."""

    def __init__(self, begins: NDArray[np.bool_]) -> None:
        (self._starts,) = begins.nonzero()

    def sum(self, values: NDArray[Any]) -> NDArray[np.float64]:
        if not len(self._starts):
            return np.zeros((*values.shape[:-1], 0))
        return np.add.reduceat(values, self._starts, axis=-1, dtype=np.float64)

    def take_first(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values[self._starts]


def _convert_tensor(value: object) -> Any:  # noqa: ANN401 - anything that numpy accepts
    if not hasattr(value, "detach"):
        return value
    tensor: Any = value
    try:
        return tensor.numpy(force=True)
    except TypeError:  # numpy has no bfloat16
        return tensor.float().numpy(force=True)


def _make_read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()  # a view, because the array itself may belong to the trainer
    view.flags.writeable = False
    return view


HOST = HostArrays()
LENT = HostArrays(copies=False)
