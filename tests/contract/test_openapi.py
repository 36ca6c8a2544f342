"""Schemathesis sends a live collector requests that its description allows or forbids, with every check."""

import json
import os
from pathlib import Path

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
RULE = {"name": "a", "condition": "threshold", "signal": "a", "operator": ">", "value": 2.0}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A collector with one run, so that some of the requested resources exist."""
    database = tmp_path_factory.mktemp("collector") / "rlvitals.db"
    with serving(Settings(database_url=f"sqlite:///{database}", dashboard="")) as collector:
        collector.send(run="r", records=[{"step": 0, "scalars": {"a": 1.0}}])
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
