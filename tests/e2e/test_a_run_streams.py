"""The whole product: the reference trainer sends to a collector through the SDK."""

import json
import os
import struct

import pytest

from tests import warm

STEPS = 24


def as_float32(value):
    return struct.pack("<f", float(value))


@pytest.fixture(scope="module")
def trained(collector, tiny_cache, tmp_path_factory):
    """A finished run of the reference trainer: its id, and the log with the values that it measured."""
    log = tmp_path_factory.mktemp("trainer") / "steps.jsonl"
    command = [
        "-m",
        "trainer_hooks.reference",
        "--preset",
        "tiny",
        "--steps",
        str(STEPS),
        "--project",
        "e2e",
        "--run",
        "tiny",
    ]
    command += ["--url", collector.url, "--log", str(log), "--cache", str(tiny_cache), "--texts"]
    ended = warm.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=240)
    assert ended.returncode == 0, ended.stdout
    (run,) = collector.get("/runs", project="e2e")["items"]
    return run, [json.loads(line) for line in log.read_text().splitlines()]


def test_every_number_the_trainer_measured_stands_in_the_api_to_the_last_float32_bit(collector, trained):
    """The signals, the steps and their order equal those of the trainer's own log."""
    run, measured = trained
    stored = collector.get(f"/runs/{run['id']}/steps", limit=STEPS)["items"]
    assert [item["step"] for item in stored] == [item["step"] for item in measured] == list(range(1, STEPS + 1))
    for logged, kept in zip(measured, stored, strict=True):
        for name, value in logged.items():
            if name != "step":
                assert as_float32(kept["signals"][name]) == as_float32(value), (logged["step"], name)


def test_the_series_are_the_steps_turned_on_their_side(collector, trained):
    """The series of a signal holds its value at every step at which it was observed."""
    run, measured = trained
    (series,) = collector.get(f"/runs/{run['id']}/series", signals="reward/mean")["items"]
    assert series["steps"] == [item["step"] for item in measured]
    assert [as_float32(value) for value in series["values"]] == [as_float32(item["reward/mean"]) for item in measured]


def test_the_run_tells_who_it_is_and_that_it_ended(trained):
    """Level, source and end reach the fleet page's answer."""
    run, _ = trained
    assert (run["name"], run["status"], run["last_step"], run["capability"]) == ("tiny", "finished", STEPS, "L4")


def test_phases_cover_the_run_without_gaps(collector, trained):
    """Each phase begins at the step after the end of the previous one."""
    run, _ = trained
    phases = collector.get(f"/runs/{run['id']}/phases")["items"]
    assert phases[0]["from_step"] == 1
    assert [phase["to_step"] + 1 for phase in phases[:-1]] == [phase["from_step"] for phase in phases[1:]]


def test_responses_arrive_in_the_worlds_own_words(collector, trained):
    """They arrive from the first step on, once a second. Tokens, texts and numbers agree; searches show answers."""
    run, _ = trained
    items = collector.get(f"/runs/{run['id']}/responses", limit=200)["items"]
    sampled = {item["step"] for item in items}
    assert 1 in sampled
    assert sampled <= set(range(1, STEPS + 1))
    assert {"unlikely", "longest", "random"} <= {kind for item in items for kind in item["kinds"]}
    for item in items:
        assert len(item["pieces"]) == len(item["token_ids"]) == item["actions"][-1][1]
        assert len(item["logprobs"]) == sum(after - first for first, after in item["actions"])
    searched = [item for item in items if "<info>" in item["pieces"]]
    assert any("<search>" in item["pieces"] for item in searched)
