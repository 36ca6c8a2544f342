"""The configuration of a run as plain values, without secrets: everybody who may read the run can read it."""

import dataclasses
from argparse import Namespace
from collections import UserString
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.text_safety import describe_error, encodable, placeholder
from trainer_hooks.wire import MAX_CONFIG_DEPTH, MAX_CONFIG_VALUES, hide_secrets

__all__ = ["plain_config"]

# The integers of msgpack. A tokenizer without a limit has a model_max_length of 10**30.
MSGPACK_MINIMUM: Final = -(2**63)
MSGPACK_MAXIMUM: Final = 2**64 - 1
# These are sequences of their characters.
TEXTS: Final = str | UserString | bytes | bytearray | memoryview
UNREADABLE: Final = "a value that cannot be shown"


def plain_config(config: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return a configuration as values that JSON has, without its secrets (`trainer_hooks.wire.hide_secrets`).

    A value that cannot be read, contains itself or is too deep or too large for the collector is described in words.

    Raises:
        ConfigurationError: If it is no mapping.
    """
    if config is None:
        return None
    try:
        entries = config if isinstance(config, Mapping) else dict(config)
    except Exception as error:  # an object of the user's may raise anything
        raise ConfigurationError(
            f"config must be a mapping, got a {type(config).__name__}: {describe_error(error)}"
        ) from error
    plain = hide_secrets(_Reader().read(entries, 1))
    return plain if isinstance(plain, dict) else {"config": plain}


class _Reader:
    """Reads a configuration entry by entry: an object of the user's may raise anything when it is read."""

    def __init__(self) -> None:
        self._left = MAX_CONFIG_VALUES - 1
        self._open: set[int] = set()

    def read(self, value: object, depth: int) -> Any:  # noqa: ANN401 - returns any JSON tree
        """Return a value as a JSON tree; ``depth`` is 1 for the configuration itself."""
        try:
            return self._read(value, depth)
        except Exception:  # noqa: BLE001 - whatever it raises
            return placeholder(value)

    def _read(self, value: object, depth: int) -> Any:  # noqa: ANN401 - as in `read`
        if isinstance(value, Namespace | SimpleNamespace):
            value = vars(value)
        is_mapping = isinstance(value, Mapping) or (dataclasses.is_dataclass(value) and not isinstance(value, type))
        if not (is_mapping or isinstance(value, Sequence | AbstractSet)) or isinstance(value, TEXTS | range):
            plain = _read_single(value)
            return self._read(plain, depth) if isinstance(plain, dict | list) else plain
        if id(value) in self._open or depth >= MAX_CONFIG_DEPTH:
            return placeholder(value)
        entries = _entries(value, most=self._left)
        self._left -= len(entries)
        self._open.add(id(value))
        items = [(key, self._read_entry(get, depth + 1)) for key, get in entries]
        self._open.remove(id(value))
        return {_text(key): item for key, item in items} if is_mapping else [item for _, item in items]

    def _read_entry(self, get: Callable[[], object], depth: int) -> Any:  # noqa: ANN401 - as in `read`
        try:
            value = get()
        except Exception:  # noqa: BLE001 - such as a value of OmegaConf that is missing
            return UNREADABLE
        return self.read(value, depth)


def _read_single(value: object) -> Any:  # noqa: ANN401 - returns any JSON value
    """Return a value that is no container as a value of JSON; an object becomes text, unless msgspec knows its type."""
    if isinstance(value, bytes | bytearray | memoryview):  # in base64 no secret would be found
        return bytes(value).decode(errors="backslashreplace")
    plain = value if isinstance(value, str) else msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    if isinstance(plain, str):
        return encodable(plain)
    is_too_large = isinstance(plain, int) and not MSGPACK_MINIMUM <= plain <= MSGPACK_MAXIMUM
    return str(plain) if is_too_large else plain


def _entries(value: Any, *, most: int) -> list[tuple[object, Callable[[], object]]]:  # noqa: ANN401 - any container
    """Return the key of each entry of a container, and the function that reads the entry.

    Raises:
        ValueError: If there are more than ``most``.
    """
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else None
    count = len(value if fields is None else fields)
    if count > most:
        raise ValueError(f"a configuration must have at most {most} more values, got {count}")
    if fields is not None:
        return [(field.name, partial(getattr, value, field.name)) for field in fields]
    if isinstance(value, Sequence):
        return [(index, partial(value.__getitem__, index)) for index in range(count)]
    read = value.__getitem__ if isinstance(value, Mapping) else _same
    return [(key, partial(read, key)) for key in islice(value, count)]


def _same(item: object) -> object:
    return item


def _text(key: object) -> str:
    try:
        return encodable(str(key.value if isinstance(key, Enum) else key))
    except Exception:  # noqa: BLE001 - whatever it raises
        return placeholder(key)
