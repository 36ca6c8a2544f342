"""The dashboard in its own process: the settings that it reads from the environment."""

import os
import signal
import subprocess
import sys

import pytest

from dashboard.__main__ import main
from dashboard.settings import Settings
from tests.absent_library import run_module_without


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "RLVITALS_DASHBOARD_PORT",
            "eighty",
            r"^rlvitals: .*RLVITALS_DASHBOARD_PORT.*got 'eighty'.*docs/configuration\.md$",
        ),
        # It would reach no collector, and every page would only say so.
        ("RLVITALS_API_URL", "collector:8600", r"RLVITALS_API_URL: must begin with http:// .*, got 'collector:8600'"),
        # No password is shown.
        ("RLVITALS_API_URL", "http://ann:hid den@collector:8600", r"got 'http://\*\*\*@collector:8600'"),
        # The variable is that of the collector.
        ("RLVITALS_ALLOWED_HOSTS", "*.example.org", "rlvitals: RLVITALS_ALLOWED_HOSTS must be names"),
    ],
)
def test_a_setting_that_cannot_be_used_ends_the_start_in_one_line(monkeypatch, variable, value, message):
    """The line has the variable's name and no traceback; a text given to SystemExit is status 1."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit, match=message):
        main()


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    """An empty host would listen on every address."""
    for name in ("RLVITALS_DASHBOARD_HOST", "RLVITALS_DASHBOARD_PORT", "RLVITALS_API_URL"):
        monkeypatch.setenv(name, "")
    assert (Settings().host, Settings().port, Settings().api_url) == ("127.0.0.1", 8601, "http://127.0.0.1:8600")


@pytest.mark.parametrize("library", ["dash", "uvicorn"])
def test_a_library_that_is_not_installed_is_named_in_one_line(library):
    """The base install has the package of the dashboard, and not what it imports."""
    done = run_module_without(library, "dashboard")
    assert done.returncode == 1
    assert done.stderr == (
        f"rlvitals: the dashboard needs {library}, which is not installed: pip install 'rlvitals[dashboard]'\n"
    )


def test_arguments_are_refused_with_the_names_of_the_variables():
    """An option without effect would look as if it had one."""
    with pytest.raises(SystemExit, match="got '--port 9000'; set RLVITALS_DASHBOARD_PORT"):
        main(["--port", "9000"])


def test_it_says_where_it_listens_and_ctrl_c_ends_it(unused_port):
    """No traceback, no password, and status 0; a second process prints which variable chooses another port."""
    command = [sys.executable, "-m", "dashboard"]
    environ = os.environ | {"RLVITALS_DASHBOARD_PORT": str(unused_port), "RLVITALS_API_URL": "http://ann:hidden@host:1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environ, **pipes) as first:
        line = first.stdout.readline()
        assert line.startswith(f"the dashboard of http://host:1 is listening on http://127.0.0.1:{unused_port};")
        second = subprocess.run(command, env=environ, **pipes, check=False, timeout=60)
        first.send_signal(signal.SIGINT)
        assert first.communicate(timeout=60) == ("", "")
    assert first.returncode == 0
    assert second.returncode == 1
    assert "choose another with RLVITALS_DASHBOARD_PORT" in second.stderr
