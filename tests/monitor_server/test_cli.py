"""The command line: lists over HTTP."""

import pytest

from monitor_server.commands.main import main


def test_runs_and_alerts_are_listed(start_collector, scripted, capsys):
    """A table with a heading and a line for each."""
    live = start_collector(engine=scripted)
    live.send(run="r", project="p", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    assert main(["runs", "--url", live.url]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["project", "name", "status", "phase"]
    assert line.split()[:6] == ["p", "r", "running", "healthy", "3", "1"]
    assert main(["alerts", "--url", live.url]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:6] == ["p", "r", "warning", "firing", "scripted", "3"]


def test_an_alert_is_acknowledged(start_collector, scripted, capsys):
    """By its id from the list; an id that nobody has is said in one line."""
    live = start_collector(engine=scripted)
    live.send(run="r", records=[{"step": 3, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    assert main(["alerts", "--url", live.url, "--ack", alert["id"], "--by", "ann", "--note", "seen"]) == 0
    assert capsys.readouterr().out == "scripted of r: firing, acknowledged by ann\n"
    (alert,) = live.get("/alerts")["items"]
    assert (alert["acknowledged_by"], alert["note"]) == ("ann", "seen")
    assert main(["alerts", "--url", live.url, "--ack", "nobody/../runs"]) == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["runs", "alerts"])
def test_a_collector_that_does_not_answer_is_said_in_one_line(command, capsys, unused_port):
    """Status 1, the address, and what to do."""
    assert main([command, "--url", f"http://127.0.0.1:{unused_port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(unused_port) in line
    assert "rlvitals serve" in line


def test_an_address_without_a_scheme_is_said_in_one_line(capsys):
    """Status 1, what was given and what it must look like; nothing is asked of the network."""
    assert main(["runs", "--url", "localhost:8600"]) == 1
    assert capsys.readouterr().err == "rlvitals: --url must look like http://127.0.0.1:8600, got 'localhost:8600'\n"
