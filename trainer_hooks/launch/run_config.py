"""The configuration of a run as plain values, without secrets: everybody who may read the run can read it."""

import re
from argparse import Namespace
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.text_safety import describe_error, encodable

__all__ = ["HIDDEN", "plain_config"]

HIDDEN: Final = "(not sent: may be secret)"
# The integers of msgpack. A tokenizer without a limit has a model_max_length of 10**30.
MSGPACK_MINIMUM: Final = -(2**63)
MSGPACK_MAXIMUM: Final = 2**64 - 1

_BETWEEN_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^a-zA-Z0-9]+")
_SECRET: Final = re.compile(
    r"(?:^|_)(?:env_?vars|env(?:ironment)?_variables|environ|api_?keys|secrets?|passwords?|passwd|passphrase"
    r"|credentials?|authorization)$"
)
# Texts of such names are secrets, except the columns of data sets and the special tokens of tokenizers.
_SECRET_TEXT: Final = re.compile(r"(?:^|_|api)(?:key|token)$")
_ORDINARY: Final = re.compile(
    r"(?:^|_)(?:input|output|prompt|response|query|question|answer|label|chosen|rejected|text|image|video|audio|media"
    r"|messages?|metadata|tools?|reward|reward_fn|score|metric|group|sort|uid|pad|eos|bos|unk|sep|cls|mask|stop|start"
    r"|end|special|separator|think|boundary)_(?:key|token)$"
)


def plain_config(config: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return a configuration as values that JSON has, with `HIDDEN` in the place of each secret.

    Secrets are found by their names, at any depth. Numbers, true and false are none.

    Raises:
        ConfigurationError: If it is no mapping, or a value cannot become plain.
    """
    if config is None:
        return None
    try:
        plain: dict[str, object] = _to_sendable(msgspec.to_builtins(dict(config), str_keys=True, enc_hook=_as_plain))
    except Exception as error:  # an object of the user's may raise anything when it becomes text
        raise ConfigurationError(f"config must be a mapping of plain values: {describe_error(error)}") from error
    return plain


def _as_plain(value: object) -> object:
    """Return the entries of a mapping or namespace, in whose text no secret would be found; else the value's text."""
    if isinstance(value, Mapping):
        return dict(value)
    return dict(vars(value)) if isinstance(value, Namespace | SimpleNamespace) else str(value)


def _to_sendable(value: Any, name: str = "") -> Any:  # noqa: ANN401 - walks any JSON tree
    """Return a JSON tree whose texts are UTF-8 and whose integers are those of msgpack; others become text."""
    if _is_secret(name, value):
        return HIDDEN
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int) and not MSGPACK_MINIMUM <= value <= MSGPACK_MAXIMUM:
        return str(value)
    if isinstance(value, dict):
        return {_to_sendable(key): _to_sendable(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_sendable(item, name) for item in value]
    return value


def _is_secret(name: str, value: object) -> bool:
    if not value or isinstance(value, int | float):
        return False
    words = _BETWEEN_WORDS.sub("_", name).lower().rstrip("_")
    if isinstance(value, str) and _SECRET_TEXT.search(words):
        return not _ORDINARY.search(words)
    return _SECRET.search(words) is not None
