"""The fleet in a terminal: once where nobody watches, and until Ctrl-C where a terminal reads."""

import os
import pty
import signal
import subprocess
import sys

from monitor_server.commands.main import main
from tests.live import eventually


def test_the_most_urgent_run_is_first(start_collector, scripted, capsys):
    """A reward that is not finite is marked in the course, and its column has the newest one that is."""
    live = start_collector(engine=scripted)
    rewards = [0.25, "NaN", 0.75]
    records = [{"step": step, "scalars": {"reward/mean": reward}} for step, reward in enumerate(rewards)]
    live.run(run="calm", project="p", records=records)
    live.run(run="ill", project="q", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    eventually(lambda: [run["alerts"] for run in live.get("/runs", sort="name")["items"]] == [0, 1])
    assert main(["watch", "--url", live.url]) == 0
    title, heading, ill, calm = capsys.readouterr().out.splitlines()
    assert (title.strip(), heading.split()[:3]) == ("2 runs", ["run", "project", "alert"])
    assert ill.split()[:5] == ["ill", "q", "warning", "scripted", "healthy"]
    assert ("0.75" in calm, calm.split()[-1]) == (True, "▁!█")
    assert main(["watch", "--url", live.url, "--project", "q"]) == 0
    assert "calm" not in capsys.readouterr().out
    assert main(["watch", "--url", "http://127.0.0.1:9"]) == 1


def test_a_terminal_shows_new_runs_until_ctrl_c(start_collector):
    """The screen is given back, and the status is 0."""
    live = start_collector()
    arguments = ["-m", "monitor_server", "watch", "--url", live.url, "--interval", "0.2"]
    terminal, inside = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "90"}
    process = subprocess.Popen([sys.executable, *arguments], stdin=inside, stdout=inside, env=environment)
    os.close(inside)
    shown = b""

    def read_until(text):
        nonlocal shown
        while text not in shown:
            shown += os.read(terminal, 65_536)

    read_until(b"0 runs")
    live.run(run="arrived", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    read_until(b"arrived")
    process.send_signal(signal.SIGINT)
    read_until(b"\x1b[?1049l")
    assert process.wait() == 0
    os.close(terminal)
