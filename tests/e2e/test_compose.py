"""Brings docker-compose.yml up on a real engine and follows one dying run from a POST to Alertmanager.

Where a docker-lab stands beside the checkout (or $DOCKER_LAB names its start script), it starts the engine and
brings the base images; it is left running. Everything this module itself starts is removed at the end.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import urllib3

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
LAB = Path(os.environ.get("DOCKER_LAB") or ROOT.parent / "shared/docker-lab/start")
PROJECT = "compose-test"
HEALTHY_STEPS = 40


class Stack:
    """One Compose project on ports that the engine chooses, on SQLite or on PostgreSQL."""

    def __init__(self, database):
        self.name = f"rlvitals-test-{database}-{os.getpid()}"
        self.has_server = database == "postgresql"
        self.files = ["docker-compose.yml", *([] if self.has_server else ["deploy/compose/sqlite.yml"])]
        self.project = ["--project-name", self.name, *(part for file in self.files for part in ("--file", file))]
        self._key = None
        self.environment = os.environ | {"RLVITALS_PORT": "0", "PROMETHEUS_PORT": "0", "ALERTMANAGER_PORT": "0"}
        if LAB.exists():  # its Python image holds torch, and the CPU index is out of reach
            self.environment.setdefault("TORCH_INDEX_URL", "")

    def compose(self, *arguments, timeout=120):
        """Run `docker compose` and return its output; a failure shows the output and the services' logs."""
        command = ["docker", "compose", *self.project, "--profile", "demo", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode != 0:
            pytest.fail(
                f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
            )
        return done.stdout

    def run_by_hand(self, commands, folder):
        """Run commands of a page in a folder, as a person with a shell does."""
        names = {"COMPOSE_PROJECT_NAME": self.name, "COMPOSE_FILE": ":".join(str(ROOT / file) for file in self.files)}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, env=self.environment | names,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"

    def logs(self):
        """Return the newest log lines of every service."""
        command = ["docker", "compose", *self.project, "logs", "--no-color", "--tail", "40"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False).stdout

    def request(self, method, service, path, body=None):
        """Ask a service by its published port."""
        port = {"collector": 8600, "prometheus": 9090, "alertmanager": 9093}[service]
        address = self.compose("port", service, str(port)).strip()
        headers = {"Authorization": f"Bearer {self.key()}"} if service == "collector" else None
        return urllib3.request(method, f"http://{address}{path}", json=body, headers=headers, timeout=10, retries=False)

    def key(self):
        """Return the key that the first start has made, as docker-compose.yml says."""
        if self._key is None:
            self._key = self.compose("exec", "-T", "collector", "cat", "/keys/admin.key").strip()
        return self._key

    def get(self, service, path):
        """Return the JSON answer to a GET."""
        answer = self.request("GET", service, path)
        assert answer.status == 200, answer.data
        return answer.json()

    def wait_for(self, what, look, seconds=90):
        """Ask until there is an answer, and give it."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > deadline:
                pytest.fail(f"{what} was not seen within {seconds} s\n{self.logs()}")
            time.sleep(1)
        return found


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stack(request):
    """The whole of docker-compose.yml, built and healthy, without the demo, on each database."""
    if LAB.exists():
        subprocess.run([LAB], check=True, timeout=900)
    elif not shutil.which("docker"):
        message = "a Docker engine with Compose v2 is needed: https://docs.docker.com/engine/install"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    stack = Stack(request.param)
    try:
        stack.compose("build", "collector", timeout=900)
        begun = time.monotonic()
        stack.compose("up", "--detach", "--wait", "--wait-timeout", "180", "collector", "prometheus", timeout=300)
        print(f"\nall services were healthy after {time.monotonic() - begun:.0f} s")  # noqa: T201 - shown with -s
        yield stack
    finally:
        stack.compose("down", "--volumes", "--remove-orphans", timeout=120)


@pytest.fixture(scope="module")
def dying(stack):
    """Two runs sent as JSON written by hand: one stays well, the gradient of the other becomes NaN."""
    for run, last in (("well", 1.0), ("dying", "NaN")):
        norms = [1.0 + 0.01 * (step % 3) for step in range(HEALTHY_STEPS)] + [last]
        records = [
            {"step": step, "scalars": {"reward/mean": 0.3 + 0.02 * (step % 5), "grad/norm": norm}}
            for step, norm in enumerate(norms)
        ]
        batch = {"schema_version": 1, "project": PROJECT, "run": run, "records": records}
        answer = stack.request("POST", "collector", "/api/v1/ingest", body=batch)
        assert answer.status == 200, answer.data
        assert answer.json()["accepted"] == len(records)
    return "dying"


def test_the_dashboard_is_at_the_collectors_address(stack):
    """A browser that opens port 8600 shows the dashboard."""
    answer = stack.request("GET", "collector", "/")
    assert answer.status == 200
    assert "text/html" in answer.headers["content-type"]
    assert b"_dash-config" in answer.data


def test_the_collector_needs_a_key(stack):
    """A reader without a key reads nothing; the keys of the services have the rights that the services need."""
    address = stack.compose("port", "collector", "8600").strip()
    assert urllib3.request("GET", f"http://{address}/api/v1/runs", timeout=10, retries=False).status == 401
    listed = {key["name"]: key["scope"] for key in stack.get("collector", "/api/v1/keys")["items"]}
    assert listed == {"admin": "admin", "prometheus": "read", "trainer": "ingest"}
    modes = stack.compose("exec", "-T", "collector", "stat", "-c", "%a", "/keys/admin.key")
    assert modes.strip() == "600"


def test_the_containers_do_not_run_as_root(stack):
    """The collector's process has the user that owns the volume."""
    assert stack.compose("exec", "-T", "collector", "id", "-u").strip() == "10001"


def test_prometheus_scrapes_every_target(stack):
    """Collector, Alertmanager and Prometheus itself are up."""

    def targets():
        found = stack.get("prometheus", "/api/v1/targets?state=active")["data"]["activeTargets"]
        up = {target["labels"]["job"] for target in found if target["health"] == "up"}
        return up if len(up) == len(found) else None

    assert stack.wait_for("a scrape of every target", targets) == {"rlvitals", "alertmanager", "prometheus"}


def _received_alerts(stack):
    found = stack.get("alertmanager", "/api/v2/alerts")
    return [alert for alert in found if alert["labels"]["alertname"] == "GRPONonFinite"]


def test_a_non_finite_gradient_fires_in_prometheus_and_arrives_in_alertmanager(stack, dying):
    """The alert names the run and its severity; the healthy run has no alert."""

    def firing():
        found = stack.get("prometheus", "/api/v1/alerts")["data"]["alerts"]
        return [alert for alert in found if alert["labels"]["alertname"] == "GRPONonFinite"]

    named = {"job": "rlvitals", "project": PROJECT, "run": dying}
    expected = {"alertname": "GRPONonFinite", **named, "severity": "critical"}
    [alert] = stack.wait_for("the rule firing in Prometheus", firing)
    assert (alert["labels"], alert["state"]) == (expected, "firing")
    [alert] = stack.wait_for("the alert in Alertmanager", lambda: _received_alerts(stack))
    assert alert["labels"] == expected
    assert alert["annotations"]["runbook_url"] == "docs/runbooks/grpononfinite.md"
    runs = {alert["labels"].get("run") for alert in stack.get("alertmanager", "/api/v2/alerts")}
    assert "well" not in runs


def test_the_store_outlives_its_container(stack, dying):
    """A new container finds the runs on the volume."""

    def last_steps():
        items = stack.get("collector", f"/api/v1/runs?project={PROJECT}")["items"]
        return {run["name"]: run["last_step"] for run in items}

    before = last_steps()
    assert before[dying] == HEALTHY_STEPS
    stack.compose("up", "--detach", "--wait", "--force-recreate", "--no-deps", "collector", timeout=180)
    assert last_steps() == before


def test_every_service_restarted_in_turn_loses_nothing(stack, dying, capsys):
    """Runs, alerts and a silence of Alertmanager are there after each, and the steps that came meanwhile."""
    matcher = {"name": "run", "value": "of nobody", "isRegex": False, "isEqual": True}
    silence = {
        "matchers": [matcher], "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2126-01-01T00:00:00Z",
        "createdBy": "the test", "comment": "outlives a restart",
    }  # fmt: skip
    answer = stack.request("POST", "alertmanager", "/api/v2/silences", body=silence)
    assert answer.status == 200, answer.data
    silence_id = answer.json()["silenceID"]
    seen = "max_over_time(ALERTS%7Balertname%3D%22GRPONonFinite%22%7D%5B1h%5D)"
    stack.wait_for(
        "the alert in Prometheus", lambda: stack.get("prometheus", f"/api/v1/query?query={seen}")["data"]["result"]
    )
    services = ["alertmanager", "prometheus", *(["postgres"] if stack.has_server else []), "collector"]
    for place, service in enumerate(services):
        begun = time.monotonic()
        stack.compose("stop", service)
        step = {"step": HEALTHY_STEPS + 1 + place, "scalars": {"reward/mean": 0.3, "grad/norm": "NaN"}}
        batch = {"schema_version": 1, "project": PROJECT, "run": dying, "records": [step]}
        if service in ("alertmanager", "prometheus"):  # without which the collector goes on
            assert stack.request("POST", "collector", "/api/v1/ingest", body=batch).status == 200
        stack.compose("up", "--detach", "--wait", "--no-deps", "--no-recreate", service, timeout=180)
        with capsys.disabled():
            print(f"\n{service} was stopped, started and healthy after {time.monotonic() - begun:.0f} s")  # noqa: T201
        if service in ("postgres", "collector"):  # a trainer sends again until it is acknowledged

            def sent(body=batch):
                return stack.request("POST", "collector", "/api/v1/ingest", body=body).status == 200

            stack.wait_for("an acknowledgement", sent)

        def newest(last=HEALTHY_STEPS + 1 + place):
            items = stack.get("collector", f"/api/v1/runs?project={PROJECT}")["items"]
            return {run["name"]: run["last_step"] for run in items}[dying] == last

        stack.wait_for("the newest step", newest)
        assert stack.get("alertmanager", f"/api/v2/silence/{silence_id}")["status"]["state"] == "active"
        assert stack.get("prometheus", f"/api/v1/query?query={seen}")["data"]["result"]

    stack.wait_for("the alert in Alertmanager again", lambda: _received_alerts(stack))


def test_a_backup_is_made_and_restored_by_the_commands_of_the_page(stack, dying, tmp_path):
    """The data of the backup is there again, a run that came later is not, and the keys of the machine are valid."""
    section = (ROOT / "docs/docker.md").read_text().partition("## Backup and restore")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    back_up, restore = blocks[:2] if stack.has_server else blocks[2:]
    later = {"schema_version": 1, "project": PROJECT, "run": "later", "records": [{"step": 1}]}

    def names():
        return {run["name"] for run in stack.get("collector", f"/api/v1/runs?project={PROJECT}")["items"]}

    before = names()
    stack.run_by_hand(back_up, tmp_path)
    (backup,) = tmp_path.iterdir()
    assert backup.stat().st_mode & 0o077 == 0
    assert stack.request("POST", "collector", "/api/v1/ingest", body=later).status == 200
    assert names() == before | {"later"}
    stack.run_by_hand(restore, tmp_path)
    assert names() == before
    assert dying in before


def test_the_trainers_container_streams_to_the_collector(stack):
    """The reference trainer, small, makes all its steps, and the collector has them."""
    stack.compose("build", "trainer", timeout=1200)
    trainer = ["trainer", "--preset", "tiny", "--project", PROJECT, "--run", "in-compose", "--steps", "3"]
    stack.compose("run", "--rm", "--no-deps", *trainer, timeout=600)
    runs = stack.get("collector", f"/api/v1/runs?project={PROJECT}")["items"]
    [run] = [run for run in runs if run["name"] == "in-compose"]
    steps = stack.get("collector", f"/api/v1/runs/{run['id']}/steps")["items"]
    assert len(steps) == 3
    assert "entropy/mean" in steps[-1]["signals"]
