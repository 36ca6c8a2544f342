"""Schemathesis asks a collector that needs keys, without a key and with a key of each scope and of one project."""

import json
import os
from pathlib import Path

import pytest

from monitor_server.access.callers import Scope
from monitor_server.settings import Settings
from tests.contract.schemathesis_runs import run_schemathesis
from tests.live import eventually, serving
from tests.monitor_server.access.conftest import Guarded
from tests.monitor_server.conftest import ScriptedEngine

# The number of requests to each route. `make fuzz-api` sends more, with another seed each time.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
SEED = os.environ.get("FUZZ_SEED", "1")
HOOKS = Path(__file__).with_name("every_caller.py")
# No key at all, a key of each scope, and keys of one project.
CALLERS = {
    "without a key": None,
    **{scope.value: (scope, None) for scope in Scope},
    "read of a project": (Scope.READ, "ours"),
    "admin of a project": (Scope.ADMIN, "ours"),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A collector with a run and an alert in each of two projects, that needs keys and limits no rate."""
    database = tmp_path_factory.mktemp("collector") / "rlvitals.db"
    settings = Settings(
        database_url=f"sqlite:///{database}", dashboard="", key_requests_per_second=0, key_bytes_per_second=0
    )
    with serving(settings, engine=ScriptedEngine) as collector:
        yield Guarded(collector)


@pytest.fixture(scope="module")
def document(guarded):
    """The OpenAPI description, whose ids are those of runs and alerts that exist, and of some that do not."""
    admin = guarded.key("admin")
    runs = [
        guarded.send(admin, run=f"r{number}", project=project, page=1.0)
        for number in range(2)
        for project in ("ours", "theirs")
    ]

    def alerts():
        found = guarded.ask("GET", "/api/v1/alerts", admin).json()["items"]
        return found if len(found) == len(runs) else None

    ids = {alert["run_id"]: alert["id"] for alert in eventually(alerts)}
    described = guarded.ask("GET", "/openapi.json", admin).json()
    # The first run of each project stays; the second may be deleted.
    kept, deletable, absent = runs[:2], runs[2:], "0" * 32
    choices = {"run_id": [*kept, absent], "alert_id": [*(ids[run] for run in kept), absent]}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in choices and parameter["in"] == "path":
                    is_deletion = method == "delete" and path == "/api/v1/runs/{run_id}"
                    values = [*deletable, absent] if is_deletion else choices[parameter["name"]]
                    parameter["schema"] = {"type": "string", "enum": values}
    return described


@pytest.fixture(scope="module")
def asked(guarded, document, tmp_path_factory):
    """The process that has sent each request once for each caller, and the answers that each caller received."""
    folder = tmp_path_factory.mktemp("every-caller")
    file = folder / "openapi.json"
    file.write_text(json.dumps(document))
    keys = {
        caller: None if rights is None else guarded.key(rights[0], project=rights[1])
        for caller, rights in CALLERS.items()
    }
    (folder / "callers.json").write_text(json.dumps(keys))
    options = ["--url", guarded.live.url, "--checks", "answers_to_every_caller"]
    options += ["--max-examples", str(EXAMPLES), "--seed", SEED, "--workers", "1", "--continue-on-failure"]
    options += ["--phases", "coverage,fuzzing" if EXAMPLES > 2 else "fuzzing", "--suppress-health-check", "all"]
    hooks = {"SCHEMATHESIS_HOOKS": str(HOOKS), "EVERY_CALLER": str(folder)}
    done = run_schemathesis(str(file), *options, folder=folder, **hooks)
    return done, [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("caller", CALLERS)
def test_every_answer_to_every_scope_is_as_described(asked, document, caller):
    """No key gets a status of 500 or above, nor a status, a media type or a body that is not described."""
    done, answers = asked
    given = [answer for answer in answers if answer["caller"] == caller]
    assert len(given) >= sum(len(methods) for methods in document["paths"].values()) - 1, "the stream alone is left out"
    unknown = sum(answer["status"] == 401 for answer in given)
    assert (unknown > len(given) / 2) == (CALLERS[caller] is None), "each key is sent, and known"
    assert "".join(answer["problem"] for answer in given)[:20_000] == ""
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
