"""The differences of two configurations, in words."""

import json

import pytest

from monitor_server.ingest.record_log.config_changes import describe_changes
from trainer_hooks.wire import HIDDEN


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"lr": 1e-6}, {"lr": 1e-6}, ""),
        ({"lr": 1e-6}, {"lr": 5e-7}, "lr from 1e-06 to 5e-07"),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, "a.b added as {}, a.b.c removed, was 1"),
        ({"a": [1, 2]}, {"a": [1, 3], "b": None}, "a from [1, 2] to [1, 3], b added as null"),
        ({"a": float("nan")}, {"a": float("nan")}, ""),
        ({"a": True}, {"a": 1}, "a from true to 1"),
        ({}, {"": 1}, " added as 1"),
        # An earlier version has stored the secret, or the trainer hides what is not recognised here.
        ({"hub_token": "hf_x", "a": 1}, {"hub_token": HIDDEN, "a": 2}, "a from 1 to 2"),
        ({"env_vars": {"A": "s"}}, {"env_vars": HIDDEN}, ""),
        ({"a": {"b": "s"}, "ab": 1}, {"a": HIDDEN, "ab": 2}, "a hidden, a.b hidden, ab from 1 to 2"),
        ({"a": ["s"]}, {"a": [HIDDEN, 1]}, "a hidden"),
        ({"hub_token": "hf_x"}, {}, f'hub_token removed, was "{HIDDEN}"'),
    ],
)
def test_settings_are_named_by_their_path(before, after, words):
    """A list is one setting; an empty object is a setting; the type of a value counts."""
    assert describe_changes(json.dumps(before).encode(), json.dumps(after).encode()) == words


@pytest.mark.parametrize("before", [b'{"lr": \xff', b'{"lr": 1', b'{"a":' * 50_000 + b"1" + b"}" * 50_000])
def test_a_damaged_configuration_is_replaced(before):
    """Otherwise each new attempt of its run would be refused."""
    assert describe_changes(before, b'{"lr": 1}') == "the one before cannot be read"


def test_the_words_are_bounded():
    """Eight settings are named and the others counted; long names and values are cut."""
    after = {f"{index:03}{'n' * 500}": "v" * 5000 for index in range(300)}
    words = describe_changes(b"{}", json.dumps(after).encode())
    assert words.endswith("and 292 more")
    assert len(words) < 1000


def test_a_setting_of_any_name_may_change(collector, run_name):
    """PostgreSQL stores no NUL: each later batch with the configuration was answered 500."""
    for attempt in (1, 2):
        record = {"step": attempt, "scalars": {"a": 1.0}}
        run_id = collector.run(run=run_name, attempt=attempt, config={"a\0\x1b[2J": attempt}, records=[record])
    (mark,) = collector.get(f"/runs/{run_id}/marks")["items"]
    assert mark["text"].endswith(r"configuration: a\x00\x1b[2J from 1 to 2")


def test_a_secret_that_an_older_trainer_sends_is_not_stored(collector, run_name):
    """Neither the run nor the mark of its attempt shows it, before and after the trainer is upgraded."""
    configs = [{"hub_token": "s3cret", "lr": 1}, {"hub_token": "s3cret2", "lr": 2}, {"hub_token": HIDDEN, "lr": 3}]
    for attempt, config in enumerate(configs, start=1):
        record = {"step": attempt, "scalars": {"a": 1.0}}
        run_id = collector.run(run=run_name, attempt=attempt, config=config, records=[record])
        assert collector.get(f"/runs/{run_id}")["config"] == config | {"hub_token": HIDDEN}
    marks = collector.get(f"/runs/{run_id}/marks")["items"]
    assert [mark["text"].partition("configuration: ")[2] for mark in marks] == ["lr from 1 to 2", "lr from 2 to 3"]
