"""The systemd unit is valid and confined, and starts a command that the package installs."""

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
