"""The fleet in a terminal: printed once without a terminal, and drawn until Ctrl-C in one."""

import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys

import pytest

from monitor_server.commands.client import LONGEST_ANSWER
from monitor_server.commands.collector import watch
from monitor_server.commands.main import main
from tests.bad_collectors import answering
from tests.live import PATIENCE_SECONDS, eventually


def test_the_most_urgent_run_is_first(start_collector, scripted, capsys):
    """A reward that is not finite is marked in the course, and its column has the newest finite one."""
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


def test_a_long_name_leaves_room_for_what_fires(start_collector, scripted, capsys):
    """The course of rewards as far apart as numbers can be is drawn as any other."""
    live = start_collector(engine=scripted)
    rewards = [{"step": step, "scalars": {"reward/mean": value}} for step, value in enumerate([1e308, -1e308, 0.0])]
    live.run(run="n" * 200, project="p" * 200, records=[*rewards, {"step": 3, "scalars": {"warn": 1.0}}])
    eventually(lambda: live.get("/runs")["items"][0]["alerts"])
    assert main(["watch", "--url", live.url]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.split()[:5] == [f"{'n' * 65}…", f"{'p' * 24}…", "warning", "scripted", "healthy"]
    assert row.split()[-1] == "█▁▄"


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (36, ["run", "alert"]),
        (52, ["run", "alert", "step"]),
        (70, ["run", "alert", "phase", "step"]),
        (84, ["run", "alert", "phase", "step", "reward"]),
        (108, ["run", "alert", "phase", "step", "reward", "newest rewards"]),
        (200, ["run", "project", "alert", "phase", "status", "step", "reward", "change", "newest rewards"]),
    ],
)
def test_a_narrow_terminal_leaves_out_what_says_less_than_what_fires(monkeypatch, capsys, width, columns):
    """Names of runs are cut before the name of an alert is, and each shown column is shown whole."""
    monkeypatch.setattr(watch, "UNBOUNDED_WIDTH", width)
    run = {"title": None, "name": "n" * 120, "project": "p", "phase": "acceleration", "status": "running"}
    run |= {"last_step": 123, "reward": 0.25, "reward_change": -0.5, "sparkline": {"values": [0.5] * 8}}
    alert = {"severity": "warning", "kind": "reward_loss"}
    answer = {"items": [run | {"leading_alert": alert}], "total": 1}
    with answering(200, json.dumps(answer).encode()) as url:
        assert main(["watch", "--url", url]) == 0
    _, heading, row = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", heading.strip()) == columns
    assert "warning reward_loss" in row
    assert ("acceleration" in row) == ("phase" in columns)


@pytest.mark.parametrize("body", [b"<html>\x1b[2J</html>", b"[]", b"{}", b"[" * 200_000, b"\xff\xfe\x00"])
def test_what_is_no_collector_is_said_in_one_line(capsys, body):
    """Another program that answers at the address ends no watching with a traceback."""
    with answering(200, body) as url:
        assert main(["watch", "--url", url]) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), "address of a collector as --url" in said, "\x1b" in said) == (1, True, False)


def test_an_answer_without_end_is_not_read_to_its_end(capsys):
    """An answer longer than any list of runs comes from another program."""
    with answering(200, b" " * (LONGEST_ANSWER + 1)) as url:
        assert main(["watch", "--url", url]) == 1
    assert f"at most {LONGEST_ANSWER:,} bytes" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["nan", "inf", "0"])
def test_an_interval_that_no_clock_can_wait_is_refused(capsys, interval):
    """The message names the option."""
    assert main(["watch", "--interval", interval]) == 2
    assert "--interval" in capsys.readouterr().err


def test_what_a_collector_names_is_text(capsys):
    """Every word of an answer is escaped, also those that only a collector writes."""
    run = dict.fromkeys(("title", "last_step", "reward", "reward_change"))
    run |= dict.fromkeys(("name", "project", "phase", "status"), "\x1b[2J") | {"sparkline": {"values": []}}
    alert = {"severity": "\x1b[2J", "kind": "\x1b[2J"}
    answer = {"items": [run | {"leading_alert": alert}], "total": 1}
    with answering(200, json.dumps(answer).encode()) as url:
        assert main(["watch", "--url", url]) == 0
    said = capsys.readouterr().out
    assert (said.count("\\x1b[2J"), "\x1b" in said) == (6, False)


def test_a_terminal_that_cannot_redraw_shows_the_runs_once(start_collector):
    """The command ends without Ctrl-C."""
    live = start_collector()
    live.run(run="arrived", records=[{"step": 0, "scalars": {"reward/mean": 0.5}}])
    terminal, inside = pty.openpty()
    environment = os.environ | {"TERM": "dumb", "COLUMNS": "90"}
    arguments = ["-m", "monitor_server", "watch", "--url", live.url]
    process = subprocess.Popen([sys.executable, *arguments], stdin=inside, stdout=inside, env=environment)
    try:
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        os.close(inside)
    assert b"arrived" in os.read(terminal, 65_536)
    os.close(terminal)


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


@contextlib.contextmanager
def in_a_terminal(url, *, columns):
    """Run the command in a terminal, and yield the process and the terminal's other end."""
    arguments = ["-m", "monitor_server", "watch", "--url", url, "--interval", "0.2"]
    terminal, inside = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)}
    process = subprocess.Popen([sys.executable, *arguments], stdin=inside, stdout=inside, env=environment)
    os.close(inside)
    try:
        yield process, terminal
    finally:
        process.kill()
        process.wait()


def test_why_nothing_can_be_read_is_shown_whole_in_a_narrow_terminal():
    """Its lines are wrapped."""
    expected, shown, words = {b"127.0.0.1:9", b"asked", b"seconds;", b"Ctrl-C", b"ends"}, b"", set()
    with in_a_terminal("http://127.0.0.1:9", columns=40) as (_, terminal):
        while not all(any(each in word for word in words) for each in expected):
            shown += os.read(terminal, 65_536)
            words = set(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).split())
        os.close(terminal)


def test_sigterm_leaves_the_terminal_as_it_was(start_collector):
    """Otherwise the shell would have no cursor, and its lines would not stay."""
    with in_a_terminal(start_collector().url, columns=90) as (process, terminal):
        shown = os.read(terminal, 65_536)
        while b"0 runs" not in shown:
            shown += os.read(terminal, 65_536)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
        with contextlib.suppress(OSError):  # the end
            while rest := os.read(terminal, 65_536):
                shown += rest
        os.close(terminal)
    assert b"\x1b[?1049l" in shown
    assert b"\x1b[?25h" in shown


def test_a_terminal_that_is_closed_ends_the_command(start_collector):
    """It also ends where no signal arrives, as in a detached session, because nobody would end it any more."""
    with in_a_terminal(start_collector().url, columns=90) as (process, terminal):
        while b"0 runs" not in os.read(terminal, 65_536):
            pass
        os.close(terminal)
        assert process.wait(PATIENCE_SECONDS) is not None


def test_a_closed_output_is_no_traceback(start_collector):
    """No reader is left for a message."""
    command = f"exec {shlex.quote(sys.executable)} -m monitor_server watch --url {start_collector().url} >&-"
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
