"""`rlvitals replay` shows an old run in a collector, with the phases and alerts that it would have had live."""

import json
import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from monitor_server.commands.logs import replay as command
from monitor_server.commands.logs import replayed_run
from monitor_server.commands.main import main
from monitor_server.detection.engine import EngineFactory
from monitor_server.log_check.backtest import backtest
from tests.live import PATIENCE_SECONDS
from tests.recorded_runs import read_run

RECORDED = Path(__file__).parents[4] / "docs/experiments/runs/grpo-seed0.jsonl.gz"


def replay(live, *logs, **options):
    """Run the command against a collector and give its exit code."""
    spelled = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return main(["replay", *map(str, logs), "--url", live.url, *spelled])


def only_run(live):
    """Return the only run of a collector."""
    (run,) = live.get("/runs")["items"]
    return run


def written(path, rows):
    """Write a log of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_replayed_run_is_paged_where_it_would_have_been(start_collector, capsys):
    """A recorded collapse of the demo: the steps of the first warning and page are those of `backtest`."""
    live = start_collector()
    assert replay(live, RECORDED) == 0
    run = only_run(live)
    assert (run["project"], run["name"], run["status"], run["last_step"]) == ("replay", "grpo-seed0", "finished", 132)
    expected = backtest("grpo-seed0", read_run(RECORDED))
    reached = {"info": [], "warning": [], "critical": []}
    for alert in live.get(f"/runs/{run['id']}/alerts")["items"]:
        reached[alert["severity"]].append(alert["severity_step"])
    assert min(reached["critical"]) == expected["page_step"]
    assert min(reached["warning"] + reached["critical"]) == expected["warn_step"]
    printed = capsys.readouterr().out
    assert f"grpo-seed0: 132 steps, {live.url}/runs/{run['id']}" in printed
    assert f"step {expected['page_step']:>5}  critical" in printed


def test_a_trainers_own_numbers_are_kept_beside_the_signals(start_collector, tmp_path):
    """A recognised number gets its canonical name, another number keeps its own; a repeated step is an attempt."""
    rows = [{"step": step, "reward": 0.5, "my/score": float(step), "note": "no number"} for step in (1, 2, 3, 2, 3)]
    live = start_collector()
    assert replay(live, written(tmp_path / "old.jsonl", rows), project="mine") == 0
    run = only_run(live)
    assert (run["project"], run["attempt"], run["last_step"]) == ("mine", 2, 3)
    assert set(live.get(f"/runs/{run['id']}")["signals"]) == {"reward/mean", "my/score"}


def test_a_run_that_was_replayed_is_not_there_twice(start_collector, tmp_path, capsys):
    """The collector has its steps, and the command prints this."""
    log = written(tmp_path / "old.jsonl", [{"step": step, "reward": 0.5} for step in range(1, 4)])
    live = start_collector()
    assert [replay(live, log), replay(live, log)] == [0, 0]
    assert only_run(live)["last_step"] == 3
    assert "3 steps were there already; another --project sends them again" in capsys.readouterr().out


def test_a_log_is_not_sent_to_another_run_of_its_name(start_collector, tmp_path, capsys):
    """Many output folders are called `out`. A log that has grown, of a live run too, or has float32 is no other one."""
    live, rows = start_collector(), [{"step": step, "reward": 0.1 * step} for step in range(1, 301)]
    rows[0] |= {"grad_norm": float("nan"), "entropy": float("inf")}
    forked = [row | {"reward": 0.9} if row["step"] > 150 else row for row in rows]
    logs = []
    for folder, content in (("a", rows[:200]), ("b", forked), ("c", [{"step": 1, "lr": 0.1}]), ("d", rows)):
        logs.append(tmp_path / folder / "out/trainer_state.json")
        logs[-1].parent.mkdir(parents=True)
        logs[-1].write_text(json.dumps({"log_history": content}))
    assert replay(live, logs[0]) == 0
    for log, step in ((logs[1], 200), (logs[2], 1)):
        assert replay(live, log) == 1
        printed = capsys.readouterr().err
        assert f"{log} was not sent: the collector has another run 'out' in the project 'replay'" in printed
        assert f"with other values at step {step}; a run is known by its project and name" in printed
    assert only_run(live)["last_step"] == 200
    single = [row | {"reward": float(np.float32(row["reward"]))} for row in rows]
    assert [replay(live, logs[0]), replay(live, written(tmp_path / "out.jsonl", single)), replay(live, logs[3])] == [
        0
    ] * 3
    assert only_run(live)["last_step"] == 300
    live.send(run="out", project="replay", attempt=7, records=[{"step": 1, "scalars": {"reward/mean": 9.0}}])
    assert replay(live, logs[3]) == 0


def test_a_pace_sends_a_run_step_by_step(start_collector, tmp_path):
    """Forty steps at 80 a second take half a second."""
    log = written(tmp_path / "old.jsonl", [{"step": step, "reward": 0.5} for step in range(1, 41)])
    live = start_collector()
    begun = time.monotonic()
    assert replay(live, log, pace=80) == 0
    assert time.monotonic() - begun >= 0.5
    assert only_run(live)["last_step"] == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl must be a log or a folder of logs; it does not exist"),
        ([str(RECORDED), "--pace", "0"], "--pace must lie in 0.001 to 100,000 steps a second, got 0; without it"),
        ([str(RECORDED), "--pace", "inf"], "got inf"),
        ([str(RECORDED), "--pace", "nan"], "got nan"),
    ],
)
def test_what_cannot_be_replayed_is_reported_in_one_line(arguments, message, capsys):
    """The exit status is 1, and one line states the condition and the given value."""
    assert main(["replay", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_keys_that_are_no_names_cost_no_step(start_collector, tmp_path, capsys):
    """A lone surrogate, a control character, an outer blank or a long key is left out; the rest of its rows is sent."""
    live = start_collector()
    log = tmp_path / "log.jsonl"
    keys = ["\ud800", "\x1b[31mred", "k" * 201, " ", " blank"]
    rows = [{"step": step, "reward/mean": 0.5} | dict.fromkeys(keys, 1.0) for step in range(3)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["replay", str(log), "--url", live.url, "--map", "grad/norm=typo"]) == 0
    printed = capsys.readouterr()
    assert "keys were left out, the first" in printed.out
    assert "--map grad/norm=typo: no row has this key" in printed.err
    (run,) = live.get("/runs")["items"]
    assert (run["last_step"], live.get(f"/runs/{run['id']}")["signals"]) == (2, ["reward/mean"])


def test_a_log_without_a_step_is_named_and_the_others_are_sent(start_collector, tmp_path, capsys):
    """The status is 1 if no log has a step, as of a check, and nothing is asked for a run that was never made."""
    live = start_collector()
    empty, log = tmp_path / "a.log", tmp_path / "b.jsonl"
    empty.write_text("nothing was logged\n" * 5)
    log.write_text('{"step": 1, "reward/mean": 0.5}\n')
    assert main(["replay", str(empty), "--url", live.url]) == 1
    assert main(["replay", str(empty), str(log), "--url", live.url]) == 0
    assert f"{empty} must hold at least one logged step" in capsys.readouterr().err
    assert [run["name"] for run in live.get("/runs")["items"]] == ["b"]
    assert main(["replay", str(log), "--project", "a\udcff", "--url", live.url]) == 1
    assert "--project must have printable characters" in capsys.readouterr().err


def test_a_name_that_no_collector_takes_is_refused_and_the_others_are_sent(start_collector, tmp_path, capsys):
    """People edit exports, which have the name of each run in their lines."""
    live = start_collector()
    headings = [{"rlvitals_export": 1, "run": name} for name in ("", "\ud800", "r" * 201, "whole")]
    step = {"step": 1, "attempt": 1, "time": 1.0, "signals": {"reward/mean": 0.5}}
    assert replay(live, written(tmp_path / "runs.jsonl", [row for each in headings for row in (each, step)])) == 1
    assert capsys.readouterr().err.count("a run's name must have 1 to 200 printable characters") == 3
    assert only_run(live)["name"] == "whole"


def test_a_log_that_a_collector_refuses_is_named_and_the_others_are_sent(start_collector, tmp_path, capsys):
    """This collector takes shorter names than others."""
    live = start_collector(max_name_chars=20)
    rows = [{"step": step, "reward": 0.5} for step in range(3)]
    logs = [written(tmp_path / f"{name}.jsonl", rows) for name in ("a" * 21, "short")]
    assert replay(live, *logs) == 1
    assert only_run(live)["name"] == "short"
    assert f"{logs[0]} was not sent, or not to its end" in capsys.readouterr().err


def use_key(live, scope, monkeypatch):
    """Let a collector require keys, and the commands use one of a scope."""
    with live.app.state.collector.store.write() as repositories:
        author = Caller(name="a test", scope=Scope.ADMIN)
        rights = {"name": "k", "scope": scope, "project": None, "expires_at": None}
        key, _ = create_key(repositories, **rights, author=author, now=time.time())
    live.app.state.collector.keys.read()
    monkeypatch.setenv("RLVITALS_API_KEY", key)


def test_a_collector_that_is_too_busy_is_asked_again(start_collector, tmp_path, monkeypatch):
    """The key may send ten requests at once and one a second after that: all twelve attempts of the run arrive."""
    live = start_collector(key_requests_per_second=1)
    use_key(live, Scope.ADMIN, monkeypatch)
    rows = [{"step": step, "reward": 0.5} for _ in range(12) for step in (1, 2)]
    assert replay(live, written(tmp_path / "busy.jsonl", rows)) == 0
    with live.app.state.collector.store.read() as reading:
        (run,) = reading.run_views.statuses(now=time.time(), deadlines=live.app.state.collector.settings.deadlines)
        assert len(reading.attempts.ordinals(run)) == 12


def test_a_run_with_many_signals_is_sent_in_parts_that_a_collector_takes(start_collector, tmp_path, monkeypatch):
    """A run may have more signals than a request may have."""
    monkeypatch.setattr("monitor_server.ingest.recorded_batches.BATCH_BYTES", 2_000)
    live = start_collector(max_body_bytes=4_000)
    rows = [{"step": step, "reward": 0.5} | {f"my/{each:0100}": 0.5 for each in range(8)} for step in range(1, 31)]
    assert replay(live, written(tmp_path / "wide.jsonl", rows)) == 0
    run = only_run(live)
    assert (run["last_step"], len(live.get(f"/runs/{run['id']}")["signals"])) == (30, 9)
    series = live.get(f"/runs/{run['id']}/series", max_points=30)["items"]
    assert [len(item["steps"]) for item in series] == [30] * 9


def test_a_replay_into_a_run_that_trains_ends(start_collector, tmp_path, monkeypatch, capsys):
    """The detectors make progress at each look, and never come to the replayed steps."""
    live, trained = start_collector(), iter(range(3, 40))

    def train(_=0.0):
        live.send(run="old", project="p", attempt=1_000_000, records=[{"step": next(trained), "scalars": {"a": 1.0}}])

    train()
    monkeypatch.setattr(replayed_run, "time", SimpleNamespace(monotonic=time.monotonic, sleep=train))
    heading = {"rlvitals_export": 1, "run": "old"}
    steps = [{"step": step, "attempt": 1, "time": 1.0, "signals": {"reward/mean": 0.5}} for step in (1, 2, 3)]
    steps[1]["acknowledged"] = [{"kind": "run_collapsed"}]
    assert replay(live, written(tmp_path / "old.jsonl", [heading, *steps]), project="p") == 0
    assert "a newer attempt of old is there, so no detector processes these steps" in capsys.readouterr().out
    assert [item["attempt"] for item in live.get(f"/runs/{only_run(live)['id']}/steps")["items"]][:3] == [1, 1, 2]


def test_a_replay_after_an_attempt_of_a_lower_number_is_the_newest_attempt(start_collector, tmp_path, capsys):
    """A launcher counts restarts from 0, and logs from 1; the acknowledgement of its alert is given, too."""
    live, numbers = start_collector(), {"reward/mean": 0.5, "grad/norm": 1.0}
    live.send(run="old", project="p", attempt=0, records=[{"step": 9, "scalars": numbers}])
    heading = {"rlvitals_export": 1, "run": "old"}
    steps = [{"step": step, "attempt": 1, "time": 1.0, "signals": numbers} for step in (1, 2, 3)]
    steps[1] |= {"signals": numbers | {"grad/norm": math.nan}, "acknowledged": [{"kind": "non_finite"}]}
    assert replay(live, written(tmp_path / "old.jsonl", [heading, *steps]), project="p") == 0
    printed = capsys.readouterr().out
    assert "grad/norm is not finite" in printed
    assert "a newer attempt" not in printed
    (alert,) = live.get(f"/runs/{only_run(live)['id']}/alerts")["items"]
    assert alert["acknowledged_at"] is not None


def interrupt(_):
    """Act as Ctrl-C."""
    raise KeyboardInterrupt


def test_a_run_whose_replay_is_interrupted_is_stopped_and_can_be_completed(start_collector, tmp_path, monkeypatch):
    """A run that neither ends nor goes on would be reported as lost."""
    live = start_collector()
    log = written(tmp_path / "old.jsonl", [{"step": step, "reward": 0.5} for step in range(1, 5)])
    with monkeypatch.context() as patched:
        patched.setattr(command, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupt))
        assert replay(live, log, pace=4) == 130
    assert (only_run(live)["status"], only_run(live)["last_step"]) == ("stopped", 1)
    assert replay(live, log) == 0
    assert (only_run(live)["status"], only_run(live)["last_step"]) == ("finished", 4)
    with monkeypatch.context() as patched:
        patched.setattr(command, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupt))
        assert replay(live, log, pace=4) == 130
    assert only_run(live)["status"] == "finished"


def test_a_run_whose_later_part_is_refused_is_stopped(start_collector, tmp_path, monkeypatch, capsys):
    """The collector takes smaller batches than others, and the second one is larger."""
    monkeypatch.setattr("monitor_server.ingest.recorded_batches.BATCH_BYTES", 1)
    live = start_collector(max_body_bytes=4_000)
    wide = {f"my/{each:0100}": 0.5 for each in range(80)}
    rows = [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.5} | wide]
    assert replay(live, written(tmp_path / "old.jsonl", rows)) == 1
    assert "was not sent, or not to its end" in capsys.readouterr().err
    assert (only_run(live)["status"], only_run(live)["last_step"]) == ("stopped", 1)


def test_a_key_that_may_not_read_replays_nothing(start_collector, tmp_path, monkeypatch, capsys):
    """The half of the run would be stored that is sent before the first question about it."""
    live = start_collector()
    use_key(live, Scope.INGEST, monkeypatch)
    assert replay(live, written(tmp_path / "old.jsonl", [{"step": 1, "reward": 0.5}])) == 1
    assert "this needs a key with the scope read" in capsys.readouterr().err
    with live.app.state.collector.store.read() as reading:
        assert not reading.run_views.statuses(now=time.time(), deadlines=live.app.state.collector.settings.deadlines)


class WaitingEngine:
    """Detectors that wait at the second attempt until they are released."""

    def __init__(self, engine, released):
        self._engine, self._released = engine, released

    def update(self, observation):
        """Wait, and process a step."""
        if observation.attempt > 1:
            assert self._released.wait(PATIENCE_SECONDS)
        return self._engine.update(observation)

    def __getattr__(self, name):
        return getattr(self._engine, name)


class WaitingEngines:
    """Builds engines that wait."""

    def __init__(self, released):
        self._engines, self._released = EngineFactory(), released

    def __call__(self):
        """Build the engine of a new run."""
        return WaitingEngine(self._engines(), self._released)

    def from_state(self, state):
        """Build the engine of a run that continues."""
        return WaitingEngine(self._engines.from_state(state), self._released)


def test_the_detection_of_a_newer_attempt_is_waited_for(start_collector, tmp_path, monkeypatch, capsys):
    """Both attempts end at the same step, so the step alone does not show that the detection is complete."""
    released = threading.Event()
    live = start_collector(engine=WaitingEngines(released), verdict_wait_seconds=0)
    monkeypatch.setattr(replayed_run, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: released.set()))
    rows = [{"step": step, "reward/mean": 0.5} for step in (1, 2, 3)]
    rows += [{"step": step, "reward/mean": 0.5, "grad/norm": float("nan")} for step in (1, 2, 3)]
    try:
        assert replay(live, written(tmp_path / "twice.jsonl", rows)) == 0
    finally:
        released.set()
    assert "critical" in capsys.readouterr().out
