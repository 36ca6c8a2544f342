"""Every service of docker-compose.yml is confined, and everything that the images hold is named exactly."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.conftest import ROOT
from tests.ports import reserved_port

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SQLITE = "deploy/compose/sqlite.yml"
LOCKS = {
    "requirements/collector.txt": ["numpy", "msgspec", "rlvitals[server,dashboard,postgres,notify,oidc,otel]"],
    "requirements/trainer.txt": ["rlvitals[trainer]"],
}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^ ]+) \\$", re.MULTILINE)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name):
    """No root, no capabilities, nothing to write but volumes and a bounded /tmp, and bounded memory and processes."""
    service = SERVICES[name]
    user, _, group = service["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert all(re.search(r"size=\d+[mg]", folder) for folder in service["tmpfs"])
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & service.keys()
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert all("docker.sock" not in volume for volume in service.get("volumes", ()))


def test_the_password_of_postgresql_is_in_no_environment():
    """It is made at the first start, and lies in a volume that only the database and the collector have."""
    assert all("environment" not in SERVICES[name] for name in ("postgres", "database-password"))
    url = SERVICES["collector"]["environment"]["RLVITALS_DATABASE_URL"]
    assert url == "postgresql+psycopg://rlvitals@postgres/postgres?passfile=/database-password/pgpass"
    users = {name for name, service in SERVICES.items() if "database-password:" in str(service.get("volumes"))}
    assert users == {"postgres", "database-password", "collector"}
    assert "database-password:/database-password:ro" in SERVICES["collector"]["volumes"]


def test_sqlite_sorts_on_the_disk_of_its_database():
    """A migration of a large database needs more temporary space than the bounded /tmp of a container has."""
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    (volume,) = re.findall(r"^VOLUME (\S+)$", dockerfile, re.MULTILINE)
    assert f"RLVITALS_DATABASE_URL=sqlite:///{volume}/" in dockerfile
    assert re.findall(r"SQLITE_TMPDIR=(\S+)", dockerfile) == [volume]


def test_the_trainer_is_stopped_by_a_signal_that_it_gets():
    """Python as the first process of a container ignores SIGTERM: it was killed after ten seconds, and its run lost."""
    trainer = (ROOT / "deploy/Dockerfile").read_text().partition("FROM python AS trainer\n")[2]
    assert re.findall(r"^STOPSIGNAL (\S+)$", trainer, re.MULTILINE) == ["SIGINT"]
    assert "stop_signal" not in SERVICES["trainer"]


def test_the_page_stops_and_deletes_the_services_of_every_profile():
    """Without the option Compose leaves what a profile has started, and the volumes of these services."""
    commands = re.findall(r"^docker compose (.*down.*?) +#", (ROOT / "docs/docker.md").read_text(), re.MULTILINE)
    assert commands == ["--profile '*' down", "--profile '*' down --volumes"]


def test_no_page_names_files_beside_which_compose_reads_no_settings():
    """By -f or COMPOSE_FILE alone Compose leaves out docker-compose.override.yml, and nobody was notified on SQLite."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "docker-compose.yml", ROOT / SQLITE]
    text = "\n".join(page.read_text() for page in pages)
    assert re.findall(r"docker compose.* (?:-f|--file) .*|COMPOSE_FILE=.*", text) == []
    assert text.count(f"cp -i {SQLITE} docker-compose.override.yml") == 2


def test_git_does_not_track_what_the_pages_tell_to_write():
    """A changed file that git tracks would stop the `git pull` of an upgrade; a secret would be committed."""
    ignored = set((ROOT / ".gitignore").read_text().splitlines())
    assert {"docker-compose.override.yml", ".env", "/notifications/", "*.secret", "local.yml", "local.yaml"} <= ignored
    changed = re.compile(r"sed -i.* deploy/|change `\w+` in the \[rules\]")
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert [page.name for page in pages if changed.search(page.read_text())] == []


@pytest.fixture
def start_prometheus(deploy, tmp_path, monkeypatch):
    """Return a function that runs the entrypoint of Prometheus, which returns its arguments and rules."""
    program = tmp_path / "bin" / "prometheus"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def start(**variables):
        entrypoint = [word.replace("$$", "$") for word in SERVICES["prometheus"]["entrypoint"]]
        folders = {"/etc/prometheus": str(deploy / "prometheus"), "/tmp/prometheus": str(tmp_path / "prometheus")}  # noqa: S108 - the container's
        for folder, own in folders.items():
            entrypoint = [word.replace(folder, own) for word in entrypoint]
        defaults = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", str(SERVICES["prometheus"]["environment"])))
        command = [*entrypoint, *SERVICES["prometheus"]["command"]]
        done = subprocess.run(
            command, env=os.environ | defaults | variables, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.split(), (tmp_path / "prometheus/rules/rlvitals.yml").read_text()

    return start


def test_the_links_of_alerts_are_set_by_variables(start_prometheus, deploy):
    """Nobody changes the rules, which git tracks; by default they are as in the repository."""
    arguments, rules = start_prometheus()
    assert arguments == SERVICES["prometheus"]["command"]
    shipped = (deploy / "prometheus/rules/rlvitals.yml").read_text()
    assert rules == shipped
    _, rules = start_prometheus(RLVITALS_PORT="8700")
    assert rules == shipped.replace("127.0.0.1:8600", "127.0.0.1:8700")
    runbooks = r"https://git.example.org/?a=1&p=docs|run\1books"
    _, rules = start_prometheus(RLVITALS_PUBLIC_URL="https://vitals.example.org/", RUNBOOKS_URL=runbooks)
    expected = shipped.replace("http://127.0.0.1:8600/", "https://vitals.example.org/")
    assert rules == expected.replace("url: docs/runbooks/", f"url: {runbooks}/")


def test_a_restore_without_its_backup_removes_nothing(tmp_path):
    """The commands of the page end before the database is dropped, and the collector does not start on an empty one."""
    section = (ROOT / "docs/docker.md").read_text().partition("## Backup and restore")[2].partition("\n## ")[0]
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) if "stop collector" in block]
    assert len(blocks) == 2
    (tmp_path / "docker").write_text("#!/bin/sh\ntouch called\n")
    (tmp_path / "docker").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for block in blocks:
        done = subprocess.run(["sh", "-c", block], cwd=tmp_path, env=os.environ | path, timeout=60, check=False)
        assert done.returncode == 1
    assert not (tmp_path / "called").exists()


def test_a_command_that_fails_ends_an_upgrade(tmp_path):
    """The commands of the page are joined: after a pull that git refuses, Compose would build the old version again."""
    section = (ROOT / "docs/docker.md").read_text().partition("## Upgrade")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert [block.split()[:2] for block in blocks] == [["git", "clone"], ["git", "pull"]]
    (tmp_path / "git").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").write_text("#!/bin/sh\ntouch called\n")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    for block in blocks:
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", block], cwd=tmp_path, env=os.environ | path, timeout=60, check=False)
        assert done.returncode == 1
    assert not (tmp_path / "called").exists()


def test_the_checks_of_health_do_not_ask_a_proxy(collector):
    """Docker gives each container the proxy of the user's configuration; a healthy service was unhealthy behind one."""
    words = re.search(r"^ +CMD (\[.*\])$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE).group(1)
    check = [word.replace("http://127.0.0.1:8600", collector.url) for word in json.loads(words)]
    assert collector.url in check[-1]
    with reserved_port() as nobody:
        proxy = {"http_proxy": f"http://127.0.0.1:{nobody}"}
        subprocess.run([sys.executable, *check[1:]], env=os.environ | proxy, check=True, timeout=60)
    assert {SERVICES["grafana"]["environment"][name] for name in ("HTTP_PROXY", "http_proxy")} == {""}


def test_base_images_are_named_by_version_and_can_be_pinned_by_digest():
    """No image is the newest of anything; each name can be replaced by one with a digest."""
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    images += re.findall(r"^ARG (PYTHON_IMAGE=\S+)", dockerfile, re.MULTILINE)
    assert len(images) == 5
    assert all(re.fullmatch(r"(\$\{)?[A-Z]+_IMAGE(:-|=)[a-z/-]+:v?[0-9][0-9.a-z-]*\}?", image) for image in images)
    assert re.findall(r"^FROM (\S+) AS python$", dockerfile, re.MULTILINE) == ["${PYTHON_IMAGE}"]


def test_the_images_install_nothing_without_a_hash():
    """Each `pip install` checks hashes, uses installed packages, or installs the CPU build of torch."""
    dockerfile = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    installs = [line for line in dockerfile.splitlines() if "pip install" in line and not line.startswith("#")]
    assert len(installs) == 5
    for line in installs:
        assert "--require-hashes" in line or "--no-index" in line or "--no-deps torch==" in line, line


def _pins(path):
    return {canonicalize_name(name): version for name, version in PINNED.findall((ROOT / path).read_text())}


@pytest.mark.parametrize("path", LOCKS)
def test_the_hashed_requirements_are_those_of_the_constraints(path):
    """Every version is the one that the tests ran with, and has a hash; `make lock` writes them again."""
    text = (ROOT / path).read_text()
    constraints = dict(
        line.split("==") for line in (ROOT / "requirements/constraints.txt").read_text().splitlines() if "==" in line
    )
    known = {canonicalize_name(name): version for name, version in constraints.items()}
    pins = _pins(path)
    assert {name: version for name, version in pins.items() if known.get(name) != version} == {}, "run `make lock`"
    blocks = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) == len(pins)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks)


@pytest.mark.parametrize("path", LOCKS)
def test_the_hashed_requirements_are_complete(path):
    """The file has every distribution that the extras of an image need, and those that build our own."""
    wanted = {canonicalize_name(name) for name in _closure(LOCKS[path])} | {"setuptools"}
    assert wanted - {"rlvitals", "torch"} - _pins(path).keys() == set(), "run `make lock`"


def _closure(roots):
    """Return every distribution that the installed metadata needs for some requirements on this platform."""
    found, pending = {}, [Requirement(root) for root in roots]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        extras = set(requirement.extras) | {""}
        if extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        needed = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
        pending += [
            each
            for each in needed
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found
