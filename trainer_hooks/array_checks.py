"""Turns what trainers hold into numpy arrays of the promised shape and kind, or says where they are not.

Knows torch tensors by their methods and never imports torch. Arrays are always copied: the trainer may overwrite its
own as soon as we return.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainer_hooks.errors import RolloutsError

__all__ = ["booleans", "floats", "integers", "refuse_where"]

Shape = tuple[int, ...]
Frozen = TypeVar("Frozen", bound=NDArray[Any])


def floats(name: str, value: ArrayLike, shape: Shape | None, like: str) -> NDArray[np.floating]:
    """Give a read-only float array; half precision is widened to float32.

    Args:
        name: What the array is called in messages.
        value: Anything that numpy takes, or a torch tensor on any device.
        shape: The shape it must have, or None where it sets the shape itself.
        like: What gives the shape, for the message.

    Raises:
        RolloutsError: If the shape or the kind is wrong.
    """
    array = _numpy(name, value)
    if array.dtype.kind not in "fiu":
        raise RolloutsError(f"{name} must hold real numbers, got dtype {array.dtype}")
    _check_shape(name, array, shape, like)
    kept = array.dtype if array.dtype.kind == "f" and array.dtype.itemsize in (4, 8) else np.dtype(np.float32)
    return _frozen(array.astype(np.float64 if array.dtype.kind in "iu" else kept))


def integers(name: str, value: ArrayLike, shape: Shape, like: str) -> NDArray[np.int64]:
    """Give a read-only int64 array.

    Raises:
        RolloutsError: If the shape is wrong or the dtype is no integer.
    """
    array = _numpy(name, value)
    if array.dtype.kind not in "iu":
        raise RolloutsError(f"{name} must hold integers, got dtype {array.dtype}")
    _check_shape(name, array, shape, like)
    return _frozen(array.astype(np.int64))


def booleans(name: str, value: ArrayLike, shape: Shape, like: str) -> NDArray[np.bool_]:
    """Give a read-only bool array; numbers are taken where all are 0 or 1.

    Raises:
        RolloutsError: If the shape is wrong or a value is neither 0 nor 1.
    """
    array = _numpy(name, value)
    if array.dtype.kind not in "bfiu":
        raise RolloutsError(f"{name} must hold booleans, got dtype {array.dtype}")
    _check_shape(name, array, shape, like)
    if array.dtype.kind != "b":
        refuse_where((array != 0) & (array != 1), array, f"{name} must hold only 0 and 1")
    return _frozen(array.astype(np.bool_))


def refuse_where(bad: NDArray[np.bool_], array: NDArray[Any], rule: str) -> None:
    """Raise a located error at the first true place, if there is one.

    Raises:
        RolloutsError: If any place is true.
    """
    if bad.any():
        place = tuple(int(index) for index in np.argwhere(bad)[0])
        raise RolloutsError(f"{rule}, got {array[place]} at {list(place)}")


def _numpy(name: str, value: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(_off_device(value))
    except (TypeError, ValueError) as error:
        raise RolloutsError(f"{name} must be a rectangular array of numbers: {error}") from error


def _off_device(value: object) -> Any:  # noqa: ANN401 - whatever numpy may take
    detach = getattr(value, "detach", None)
    if detach is None:
        return value
    tensor = detach()
    # numpy has no bfloat16.
    return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).cpu().numpy()


def _check_shape(name: str, array: NDArray[Any], shape: Shape | None, like: str) -> None:
    if shape is not None and array.shape != shape:
        raise RolloutsError(f"{name} must have the shape of {like} {shape}, got {array.shape}")


def _frozen(array: Frozen) -> Frozen:
    array.flags.writeable = False
    return array
