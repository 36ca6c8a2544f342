"""Schemathesis sends a live collector requests that its description allows or forbids, with every check."""

import base64
import json
import os
from pathlib import Path

import jsonschema_rs  # a dependency of Schemathesis
import pytest

from monitor_server.settings import Settings
from tests.contract.schemathesis_runs import run_schemathesis
from tests.live import serving
from trainer_hooks import wire

HOOKS = Path(__file__).with_name("every_value_once.py")
# The number of random requests to each route, which `make fuzz-api` sends beside those that Schemathesis makes for
# every parameter. In the suite test_openapi_by_scope.py sends them.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
PHASES = "examples,coverage,fuzzing,stateful" if "FUZZ_EXAMPLES" in os.environ else "examples,coverage,stateful"
SEED = ["--seed", seed] if (seed := os.environ.get("FUZZ_SEED")) else ["--seed", "1", "--generation-deterministic"]
TOKENS = {
    "dtype": "float16",
    "shape": [2],
    "data": base64.b64encode(bytes.fromhex("007e00fc")).decode(),
}  # NaN, -Infinity
ACTIONS = {"dtype": "int32", "shape": [1, 2], "data": base64.b64encode(bytes.fromhex("0000000002000000")).decode()}
RESPONSE = {"kinds": ["random"], "correct": True, "length": 2, "actions": ACTIONS, "logprobs": TOKENS}
STEPS = [
    {"step": 0, "scalars": {"a": 1.0}},
    {
        "step": 1,
        "scalars": {"a": "NaN", "b": "Infinity", "reward/mean": "-Infinity"},
        "responses": [RESPONSE | {"reward": "NaN", "logprob": "-Infinity", "displacement": "Infinity"}],
    },
]
RULE = {"name": "a", "condition": "threshold", "signal": "a", "operator": ">", "value": 2.0}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A collector with one run, so that some of the requested resources exist; some of its numbers are not finite."""
    database = tmp_path_factory.mktemp("collector") / "rlvitals.db"
    with serving(Settings(database_url=f"sqlite:///{database}", dashboard="")) as collector:
        collector.send(run="r", records=STEPS)
        yield collector


@pytest.fixture
def described(live, tmp_path):
    """The file of the OpenAPI description, in which one route has the fields of a rule in each place.

    The four routes that take rules read them by one type. Requests with each wrong field are half of all requests, and
    are answered before the code of a route runs, so that three routes have rules to choose from.
    """
    document = live.pool.request("GET", f"{live.url}/openapi.json").json()
    chosen = {"enum": [RULE | {"severity": severity} for severity in ("warning", "critical")]}
    bodies = {
        name: document["components"]["schemas"][name]["properties"]
        for name in ("ChangeBody", "DryRunBody", "ApplyBody")
    }
    bodies["ChangeBody"]["rule"] = bodies["DryRunBody"]["rule"] = bodies["ApplyBody"]["rules"]["items"] = chosen
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("path", "count"),
    [("", 1), ("/{run_id}", 1), ("/{run_id}/steps", 3), ("/{run_id}/series", 3), ("/{run_id}/responses", 5)],
)
def test_the_texts_of_numbers_that_are_not_finite_are_described(live, path, count):
    """A client that was made from the description reads the runs whose signals are not finite."""
    run_id = wire.run_id("default", "r")
    answer = live.pool.request("GET", f"{live.url}/api/v1/runs{path.format(run_id=run_id)}")
    assert sum(answer.data.count(text) for text in (b'"NaN"', b'"Infinity"', b'"-Infinity"')) == count
    document = live.pool.request("GET", f"{live.url}/openapi.json").json()
    described = document["paths"][f"/api/v1/runs{path}"]["get"]["responses"]["200"]["content"][wire.JSON]["schema"]
    jsonschema_rs.validate(described | {"components": document["components"]}, answer.json())


def test_times_are_described_as_numbers_alone(live):
    """They are always finite, so that a client reads them without a case for texts."""
    shapes = live.pool.request("GET", f"{live.url}/openapi.json").json()["components"]["schemas"]
    assert shapes["StepItem"]["properties"]["time"]["type"] == "number"
    assert shapes["RunItem"]["properties"]["last_seen"]["type"] == "number"


@pytest.mark.slow
@pytest.mark.timeout(900)  # it computes for a minute, and a busy machine takes several times as long
def test_every_answer_is_as_described(live, described, tmp_path):
    """Statuses, media types, shapes and headers; valid data is accepted, invalid data is refused, nothing is a 500."""
    options = ["--checks", "all", "--phases", PHASES, "--max-examples", str(EXAMPLES), *SEED]
    hooks = {"SCHEMATHESIS_HOOKS": str(HOOKS)}
    done = run_schemathesis(str(described), "--url", live.url, *options, folder=tmp_path, **hooks)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]


def test_the_stream_is_described(live):
    """The requests above leave the stream out, because it does not end."""
    document = live.pool.request("GET", f"{live.url}/openapi.json").json()
    assert "text/event-stream" in document["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"]
    assert wire.JSON in document["paths"]["/api/v1/ingest"]["post"]["requestBody"]["content"]
