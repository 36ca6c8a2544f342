"""The systemd unit is valid and confined, and starts a command that the package installs."""

import os
import re
import subprocess
import sys

import pytest

from monitor_server.settings import Settings
from tests.deploy.conftest import ROOT

UNIT = ROOT / "deploy" / "systemd" / "rlvitals.service"
# systemd-analyze scores 0 (confined) to 100 (as root, unconfined); its level OK ends at 30.
MOST_EXPOSURE = 20


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that exists on this machine."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/rlvitals/bin/rlvitals", sys.executable))
    return copy


@pytest.mark.systemd
def test_systemd_finds_no_fault(unit):
    """No unknown key, section or value, which systemd would ignore with a warning at the start."""
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.systemd
def test_the_service_is_confined(unit):
    """The measure is systemd's own list of the access of a service to its machine."""
    arguments = ["security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", "--no-pager", str(unit)]
    checked = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_unit_sets_what_the_collector_reads():
    """The command that the package installs, and names of settings."""
    text = UNIT.read_text()
    assert re.search(r"^ExecStart=\S+/bin/rlvitals serve$", text, re.MULTILINE)
    names = re.findall(r"^Environment=(\w+)=", text, re.MULTILINE)
    assert set(names) <= {f"RLVITALS_{name.upper()}" for name in Settings.model_fields}
    assert names == ["RLVITALS_DATABASE_URL"]


def test_the_page_makes_the_file_of_settings():
    """The commands beside the service read it, and a shell ends at a file that is absent."""
    (path,) = re.findall(r"^EnvironmentFile=-(\S+)$", UNIT.read_text(), re.MULTILINE)
    page = (ROOT / "docs/deployment.md").read_text()
    made = page.index(f"mkdir -p {path.rpartition('/')[0]} && touch {path} && chmod 600 {path}\n")
    assert made < page.index("systemctl enable --now rlvitals") < page.index(f". {path};")


def test_a_restore_without_its_backup_removes_nothing(tmp_path):
    """The commands of the page end before the database is removed, and the service does not start on an empty one."""
    page = (ROOT / "docs/deployment.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "systemctl stop" in block]
    database = tmp_path / "var/lib/rlvitals/rlvitals.db"
    database.parent.mkdir(parents=True)
    database.touch()
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    (tmp_path / "systemctl").chmod(0o755)
    assert block.count("/var/") == 3
    commands = block.replace("/var/", f"{tmp_path}/var/")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", commands], cwd=tmp_path, env=os.environ | path, timeout=60, check=False)
    assert done.returncode == 1
    assert database.exists()
    assert not (tmp_path / "called").exists()
