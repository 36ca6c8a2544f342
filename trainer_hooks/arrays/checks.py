"""Converts the arguments of `Rollouts` to arrays of the required shape and kind, or locates what is wrong."""

from trainer_hooks.arrays import Array, ArrayLibrary, Kind
from trainer_hooks.errors import RolloutsError

__all__ = ["read_booleans", "read_floats", "read_integers"]

Shape = tuple[int, ...]


def read_floats(
    library: ArrayLibrary, name: str, value: object, shape: Shape | None, like: str, *, may_be_booleans: bool = False
) -> Array:
    """Convert to an array of floats; half precision is widened to float32.

    Args:
        library: Where the array is.
        name: Name of the array in messages.
        value: Anything that numpy accepts, or a torch tensor on any device.
        shape: The required shape, or None where any shape is valid.
        like: The array that has this shape, for messages.
        may_be_booleans: Whether True and False are valid, as 1 and 0.

    Raises:
        RolloutsError: If the shape or the kind is wrong.
    """
    kinds: set[Kind] = {"float", "integer", "bool"} if may_be_booleans else {"float", "integer"}
    array = _convert(library, name, value, kinds, "real numbers")
    _check_shape(name, array, shape, like)
    return library.to_floats(array)


def read_integers(library: ArrayLibrary, name: str, value: object, shape: Shape, like: str) -> Array:
    """Convert to an array of int64.

    Raises:
        RolloutsError: If the shape is wrong or the dtype is not an integer.
    """
    array = _convert(library, name, value, {"integer"}, "integers")
    _check_shape(name, array, shape, like)
    return library.to_integers(array)


def read_booleans(library: ArrayLibrary, name: str, value: object, shape: Shape, like: str) -> Array:
    """Convert to an array of bool; numbers are valid if all are 0 or 1.

    Raises:
        RolloutsError: If the shape is wrong or a value is neither 0 nor 1.
    """
    array = _convert(library, name, value, {"bool", "integer", "float"}, "booleans")
    _check_shape(name, array, shape, like)
    flags = library.to_booleans(array)
    if library.kind_of(array) != "bool":
        library.refuse_where(array != flags, array, f"{name} must hold only 0 and 1")
    return flags


def _convert(library: ArrayLibrary, name: str, value: object, kinds: set[Kind], meaning: str) -> Array:
    array = library.convert(name, value)
    if library.kind_of(array) not in kinds:
        raise RolloutsError(f"{name} must hold {meaning}, got dtype {array.dtype}")
    return array


def _check_shape(name: str, array: Array, shape: Shape | None, like: str) -> None:
    if shape is not None and tuple(array.shape) != shape:
        raise RolloutsError(f"{name} must have the shape of {like} {shape}, got {tuple(array.shape)}")
