"""Skips, or where CI=true fails, tests that need a program of Debian's on a machine without it."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# Marker, which is also the name of Debian's package → the program that its tests run.
PROGRAMS = {"prometheus": "promtool", "systemd": "systemd-analyze"}


@pytest.fixture(autouse=True)
def _program_is_there(request):
    for marker, program in PROGRAMS.items():
        if request.node.get_closest_marker(marker) and not shutil.which(program):
            message = f"{program} is needed: apt-get install {marker}"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)


@pytest.fixture(scope="session")
def deploy():
    """The folder with the configuration of Prometheus and Alertmanager."""
    return ROOT / "deploy"
