"""Hides the secrets in a run's configuration, which everybody who may read the run can read.

The SDK hides them before it sends a configuration, and the collector before it stores one of an older SDK.
"""

import re
from typing import Any, Final

__all__ = ["HIDDEN", "MAX_CONFIG_DEPTH", "MAX_CONFIG_VALUES", "hide_secrets"]

HIDDEN: Final = "(not sent: may be secret)"
# Trainers nest their configurations less than ten deep; readers serialise recursively and fail at about 250.
MAX_CONFIG_DEPTH: Final = 32
# Hydra writes about 700 values for a whole verl run.
MAX_CONFIG_VALUES: Final = 10_000

_BETWEEN_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^a-zA-Z0-9]+")
# Whatever has such a name is secret.
_SECRET: Final = re.compile(
    r"(?:^|_)(?:passwords?|passwd|passphrases?)(?:_|$)"
    r"|(?:^|_)(?:env_?vars|env(?:ironment)?_variables|environ|secrets?|credentials?|authorization)$"
    r"|(?:api|auth|access|secret|private|aws|hf|hub|openai|wandb)_?(?:key|token)s?$"
)
# So is a text of such a name, unless it may be a column of a data set or a special token of a tokenizer.
_SECRET_TEXT: Final = re.compile(r"(?:^|_)(?:key|token)s?$")
_SHORTEST_SECRET: Final = 16
_COLUMN: Final = re.compile(r"[a-z]+(?:[._][a-z]+)+")
_NOTHING: Final = ("", "none", "null", "true", "false")
_CREDENTIAL: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|(?:sk-|rlv_)(?=[\w-]{0,64}\d)[\w-]{16,}|gh[opsur]_[A-Za-z0-9]{16,}"
    r"|(?:github_pat_|glpat-|xox[a-z]-|wandb_v1_)[\w-]{16,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w.-]+)"
)
_CREDENTIAL_START: Final = re.compile(
    r"hf_|sk-|rlv_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|wandb_v1_|A[KS]IA|AIza|eyJ"
)
# A number before a slash is a port. No password holds the start of another address, so the time is linear.
_LOGIN: Final = re.compile(r"(://[^\s/:@]*:)(?!\d{1,5}[/?#])(?:(?!://)\S)+@")
# A name and the first word of its value, as in "api_key='…'", '"token": "…"' and "ApiKey('…')". The value is only
# looked at, because it may hold a name and a value itself.
_GIVEN: Final = re.compile(
    r"(?<![\w-])([\w-]++)[\\\"']{0,16}(?:\s{0,2}[:=]|\()(?=[\s\\\"'\[({=>]{0,32}([^\s\\\"',;&(){}\[\]]{0,64}))"
)


def hide_secrets(value: Any, name: str = "") -> Any:  # noqa: ANN401 - walks any JSON tree
    """Return a JSON tree with `HIDDEN` in the place of each value that may be secret.

    Secrets are found by their names, which are the keys of objects, and texts also by what they look like. A text that
    gives a value to such a name is hidden as a whole: it may be an object that has become text. Numbers, true and false
    are no secrets.

    Args:
        value: A JSON tree that is at most about `MAX_CONFIG_DEPTH` deep.
        name: The name of the value; a list gives its name to its items.

    >>> hide_secrets({"hub_token": "hf_x", "prompt_key": "question", "data": "s3://me:pass@host/data"})["data"]
    's3://me:(not sent: may be secret)@host/data'
    """
    if _is_secret(name, value):
        return HIDDEN
    if isinstance(value, str):
        return _hide_in_text(value)
    if isinstance(value, dict):
        return {
            _hide_in_text(key) if isinstance(key, str) else key: hide_secrets(item, str(key))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [hide_secrets(item, name) for item in value]
    return value


def _is_secret(name: str, value: object) -> bool:
    if not value or isinstance(value, int | float) or (isinstance(value, str) and value.lower() in _NOTHING):
        return False
    parts = [_BETWEEN_WORDS.sub("_", part).lower().strip("_0123456789") for part in name.split(".")]
    if any(map(_SECRET.search, parts)):
        return True
    return isinstance(value, str) and _SECRET_TEXT.search(parts[-1]) is not None and _is_long_or_known(value)


def _is_long_or_known(text: str) -> bool:
    """Whether a text is rather a secret than the name of a column or a special token."""
    if _CREDENTIAL_START.match(text):
        return True
    return len(text) >= _SHORTEST_SECRET and not re.search(r"[\s<]", text) and not _COLUMN.fullmatch(text)


def _hide_in_text(text: str) -> str:
    if any(_is_secret(name, value) for name, value in _GIVEN.findall(text)):
        return HIDDEN
    return _CREDENTIAL.sub(HIDDEN, _LOGIN.sub(rf"\g<1>{HIDDEN}@", text))
