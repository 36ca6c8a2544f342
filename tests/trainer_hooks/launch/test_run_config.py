import argparse
import dataclasses
import json
import os
from collections import UserDict, UserList
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.launch.run_config import plain_config
from trainer_hooks.wire import HIDDEN, MAX_CONFIG_DEPTH, MAX_CONFIG_VALUES, hide_secrets

CREDENTIAL = "hf_s3cretS3cretS3cret0"


class Missing(UserDict):
    """A configuration of which some entries cannot be read, like one of OmegaConf with `???`."""

    def __getitem__(self, name):
        if name == "path":
            raise ValueError("missing mandatory value")
        return super().__getitem__(name)


class Shown:
    """An object that shows its fields."""

    def __init__(self, **fields):
        self.fields = fields

    def __repr__(self):
        return f"Shown({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"


class Unreadable:
    """An object that does not become text."""

    def __str__(self):
        raise RuntimeError


@dataclasses.dataclass
class Judge:
    """A part of a configuration."""

    api_key: object
    model: object = "m"


def test_what_cannot_be_read_is_described_and_the_rest_is_sent():
    """Such settings trained before the SDK looked into them, so they may not end a training."""
    itself = argparse.Namespace(lr=1)
    itself.again = itself
    deep = shared = []
    for _ in range(100):
        deep, shared = [deep], Judge(shared, [shared])
    config = {
        "cfg": Missing(path="???", lr=1, layers=UserList([Missing(path=0)])),
        "itself": itself,
        ("math", 1): Unreadable(),
        None: 10**10_000,
        "many": range(2, 4),
        "all": list(range(MAX_CONFIG_VALUES)),
    }
    assert plain_config(config) == {
        "cfg": {"path": "a value that cannot be shown", "lr": 1, "layers": [{"path": "a value that cannot be shown"}]},
        "itself": {"lr": 1, "again": "a dict that cannot be shown"},
        "('math', 1)": "a Unreadable that cannot be shown",
        "None": "a int that cannot be shown",
        "many": "range(2, 4)",
        "all": "a list that cannot be shown",
    }
    assert str(plain_config({"deep": deep})).count("[") == MAX_CONFIG_DEPTH - 2
    assert str(plain_config({"shared": shared})).count("model") < MAX_CONFIG_VALUES
    assert plain_config([("lr", 1)]) == {"lr": 1}
    with pytest.raises(ConfigurationError, match="config must be a mapping, got a int"):
        plain_config(5)


def test_an_object_that_becomes_text_shows_no_secret():
    """No text of an object is sent if it names a secret, because nobody knows where the secret ends."""
    assert plain_config({"judge": Judge("s3cret"), "judges": UserList([Judge("s3cret")]), "of": [Shown(lr=1)]}) == {
        "judge": {"api_key": HIDDEN, "model": "m"},
        "judges": [{"api_key": HIDDEN, "model": "m"}],
        "of": ["Shown(lr=1)"],
    }
    assert plain_config({"a": Shown(api_key="s3cret"), "b": b"api_key=s3cret"}) == {"a": HIDDEN, "b": HIDDEN}


NAMES = st.sampled_from(["api_key", "HFToken", "wandbkey", "DB_PASSWORD_1", "client-secret", "env_vars"])
SECRETS = st.one_of(
    st.sampled_from(
        [CREDENTIAL, f"Bearer {CREDENTIAL}", f"https://me:{CREDENTIAL}@h/x", f"git+ssh://:s3cret/{CREDENTIAL}@@h:1"]
    ),
    st.dictionaries(NAMES, st.sampled_from(["s3cret", b"s3cret", ["a s3cret"], ("s3cret", 1), {"a": "s3cret"}])),
    NAMES.map(lambda name: argparse.Namespace(**{name: "s3cret"})),
    st.just(Judge("s3cret")),
)


def containers(inner):
    return st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=5) | st.just("path") | st.just("key"), inner, max_size=3),
        inner.map(str),
        inner.map(lambda value: Missing(path=value, other=value)),
        inner.map(lambda value: UserList([value])),
        inner.map(lambda value: Shown(inner=value)),
        inner.map(lambda value: SimpleNamespace(inner=value, judge=Judge(value))),
    )


@settings(max_examples=int(os.environ.get("RANDOM_EXAMPLES", "60")), deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.recursive(SECRETS, containers, max_leaves=6), max_size=3))
def test_no_nested_configuration_shows_a_secret_or_raises(config):
    """Secrets in any container, object and text are hidden, and the collector finds nothing more to hide."""
    plain = plain_config(config)
    assert "s3cret" not in json.dumps(plain)
    assert hide_secrets(plain) == plain
    assert msgspec.msgpack.encode(plain)
