"""Skips, or where CI=true fails, the `prometheus` tests on a machine without promtool."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _promtool_is_there(request):
    if request.node.get_closest_marker("prometheus") and not shutil.which("promtool"):
        message = "promtool is needed: apt-get install prometheus"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def deploy():
    """The folder with the configuration of Prometheus and Alertmanager."""
    return ROOT / "deploy"
