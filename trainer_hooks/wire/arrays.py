"""The common rules of all wire structs, and numeric arrays as raw bytes."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Wire"]


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common rules of all wire structs: immutable, named fields, unknown fields refused."""


Name: TypeAlias = Literal["float16", "float32", "float64", "int32", "int64", "uint8", "bool"]
# A table is faster than the attribute: numpy builds the name of a dtype anew at each access.
NAMES: dict[np.dtype[Any], Name] = {np.dtype(name).newbyteorder("<"): name for name in get_args(Name)}


class Array(Wire, frozen=True):
    """A numeric array as raw little-endian bytes in C order; base64 in JSON."""

    dtype: Name
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> Self:
        """Copy a numpy array into wire form.

        Raises:
            KeyError: If the wire has no such dtype.
        """
        name = NAMES.get(array.dtype)
        if name is None:
            array = array.astype(array.dtype.newbyteorder("<"))
            name = NAMES[array.dtype]
        return cls(dtype=name, shape=array.shape, data=array.tobytes())

    @classmethod
    def from_parts(cls, name: Name, parts: Sequence[NDArray[Any]]) -> list[Self]:
        """Copy numpy arrays that differ only in length; they are converted together and returned one by one."""
        dtype = np.dtype(name).newbyteorder("<")
        data = np.concatenate(parts).astype(dtype).tobytes()
        edges = accumulate((part.size * dtype.itemsize for part in parts), initial=0)
        return [
            cls(dtype=name, shape=part.shape, data=data[begin:end])
            for part, (begin, end) in zip(parts, pairwise(edges), strict=True)
        ]

    def to_numpy(self) -> NDArray[Any]:
        """Return the array, read-only.

        Raises:
            ValueError: If the bytes do not fill the shape.
        """
        dtype = np.dtype(self.dtype).newbyteorder("<")
        expected = math.prod(self.shape) * dtype.itemsize
        if any(size < 0 for size in self.shape) or len(self.data) != expected:
            raise ValueError(
                f"data must hold {expected} bytes for {self.dtype}{list(self.shape)}, got {len(self.data)} bytes"
            )
        return np.frombuffer(self.data, dtype=dtype).reshape(self.shape)
