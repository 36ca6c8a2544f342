"""Turns what trainers hold into arrays of the promised shape and kind, or says where they are not."""

from trainer_hooks.arrays import Array, ArrayLibrary, Kind
from trainer_hooks.errors import RolloutsError

__all__ = ["booleans", "floats", "integers"]

Shape = tuple[int, ...]


def floats(library: ArrayLibrary, name: str, value: object, shape: Shape | None, like: str) -> Array:
    """Give a float array; half precision is widened to float32.

    Args:
        library: Where the array is kept.
        name: What the array is called in messages.
        value: Anything that numpy takes, or a torch tensor on any device.
        shape: The shape it must have, or None where it sets the shape itself.
        like: What gives the shape, for the message.

    Raises:
        RolloutsError: If the shape or the kind is wrong.
    """
    array = _of_kind(library, name, value, {"float", "integer"}, "real numbers")
    _check_shape(name, array, shape, like)
    return library.floats(array)


def integers(library: ArrayLibrary, name: str, value: object, shape: Shape, like: str) -> Array:
    """Give an int64 array.

    Raises:
        RolloutsError: If the shape is wrong or the dtype is no integer.
    """
    array = _of_kind(library, name, value, {"integer"}, "integers")
    _check_shape(name, array, shape, like)
    return library.integers(array)


def booleans(library: ArrayLibrary, name: str, value: object, shape: Shape, like: str) -> Array:
    """Give a bool array; numbers are taken where all are 0 or 1.

    Raises:
        RolloutsError: If the shape is wrong or a value is neither 0 nor 1.
    """
    array = _of_kind(library, name, value, {"bool", "integer", "float"}, "booleans")
    _check_shape(name, array, shape, like)
    flags = library.booleans(array)
    if library.kind(array) != "bool":
        library.refuse_where(array != flags, array, f"{name} must hold only 0 and 1")
    return flags


def _of_kind(library: ArrayLibrary, name: str, value: object, kinds: set[Kind], meaning: str) -> Array:
    array = library.taken(name, value)
    if library.kind(array) not in kinds:
        raise RolloutsError(f"{name} must hold {meaning}, got dtype {array.dtype}")
    return array


def _check_shape(name: str, array: Array, shape: Shape | None, like: str) -> None:
    if shape is not None and tuple(array.shape) != shape:
        raise RolloutsError(f"{name} must have the shape of {like} {shape}, got {tuple(array.shape)}")
