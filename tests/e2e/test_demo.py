"""`rlvitals demo`: everything starts from one command and ends with one Ctrl-C."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import urllib3

pytestmark = pytest.mark.slow

# With one of these a collector would end at its start, or would not show the run.
SETTINGS_OF_THE_SHELL = {"RLVITALS_NOTIFICATIONS": "gone.toml", "RLVITALS_ROLE": "ingest"}


@contextlib.contextmanager
def demo(directory, port, *options):
    """The demo in its own process, with the lines that it prints; it takes no settings from the shell."""
    command = ["-m", "monitor_server", "demo", "--port", str(port), "--directory", str(directory), *options]
    environment = os.environ | SETTINGS_OF_THE_SHELL
    process = subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(240, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_until(process, text):
    """Read lines up to the first that holds the text, and give them."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def copy_warm_start(tiny_cache, directory):
    """Put a warm start where an earlier demo has left its own."""
    for path in tiny_cache.glob("warm-*.pt"):
        shutil.copy(path, directory)


def is_served(port):
    """Return whether anything answers on the port."""
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{port}/healthz", retries=False, timeout=5).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def test_ctrl_c_ends_collector_and_trainer_and_keeps_the_run(tmp_path, tiny_cache, unused_port):
    """All processes end with exit code 0; the database stays. The warm start is there from an earlier demo."""
    copy_warm_start(tiny_cache, tmp_path)
    with demo(tmp_path, unused_port, "--preset", "tiny", "--steps", "100000") as process:
        lines = "".join(read_until(process, "step    2"))
        assert f"http://127.0.0.1:{unused_port}/runs/" in lines
        page = urllib3.request("GET", f"http://127.0.0.1:{unused_port}/", retries=False, timeout=60)
        assert (page.status, b"rlvitals" in page.data) == (200, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert not is_served(unused_port)
    assert (tmp_path / "rlvitals.db").stat().st_size > 0


def test_a_run_that_ends_is_summed_up_and_its_dashboard_stays_until_a_signal(tmp_path, tiny_cache, unused_port):
    """SIGTERM ends the collector as Ctrl-C does."""
    copy_warm_start(tiny_cache, tmp_path)
    with demo(tmp_path, unused_port, "--preset", "tiny", "--steps", "2") as process:
        lines = read_until(process, f"The dashboard stays at http://127.0.0.1:{unused_port} until Ctrl-C.")
        assert "The run ended without an alert.\n" in lines
        assert is_served(unused_port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not is_served(unused_port)


def test_with_exit_the_demo_ends_as_its_trainer_does(tmp_path, unused_port):
    """A trainer that cannot start ends it with the trainer's exit code, and the output says so."""
    with demo(tmp_path, unused_port, "--preset", "unheard-of", "--exit") as process:
        output, _ = process.communicate(timeout=200)
        assert "The trainer ended with exit code 2; its last lines are printed above." in output
        assert process.returncode == 2


def test_a_port_that_is_taken_is_one_line_and_a_failure(tmp_path, collector):
    """The collector's own message stands in the terminal, and nothing is left running."""
    port = int(collector.url.rsplit(":", 1)[1])
    with demo(tmp_path, port, "--preset", "tiny", "--exit") as process:
        output, _ = process.communicate(timeout=100)
        assert process.returncode != 0
        assert str(port) in output
        assert "Traceback" not in output
