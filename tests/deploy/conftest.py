"""Skips, or where CI=true fails, tests that need a program of Debian's on a machine without it."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# Marker → Debian's package, and the programs of it that the tests run.
PROGRAMS = {
    "prometheus": ("prometheus", ("prometheus", "promtool")),
    "alertmanager": ("prometheus-alertmanager", ("prometheus-alertmanager", "amtool")),
    "systemd": ("systemd", ("systemd-analyze",)),
    "nginx": ("nginx-light", ("nginx", "openssl")),
}


@pytest.fixture(autouse=True)
def _program_is_there(request):
    for marker, (package, programs) in PROGRAMS.items():
        missing = [program for program in programs if not shutil.which(program)]
        if request.node.get_closest_marker(marker) and missing:
            message = f"{', '.join(missing)} is needed: apt-get install {package}"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)


@pytest.fixture(scope="session")
def deploy():
    """The folder with the configuration of Prometheus and Alertmanager."""
    return ROOT / "deploy"
