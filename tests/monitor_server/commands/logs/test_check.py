"""`rlvitals check` gives a verdict on any log without a server."""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import urllib3

from monitor_server.commands.main import main
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.log_check import assert_healthy
from monitor_server.log_check.backtest import backtest
from tests import warm
from tests.live import eventually
from tests.monitor_server.commands.logs.trainer_states import write
from tests.recorded_runs import read_run

RECORDED = Path(__file__).parents[4] / "docs/experiments/runs-stubborn/grpo-seed5.jsonl.gz"
HOSTILE = "\x1b]0;mine\x07<script>alert(1)</script>\u202e[bold]"


def check(capsys, *arguments):
    """Run the command and return its exit status and its output."""
    status = main(["check", *map(str, arguments)])
    return status, capsys.readouterr()


def test_the_sample_is_a_collapse_that_was_seen_ahead(capsys):
    """It needs no file and no server, and prints what stopping would have saved."""
    status, printed = check(capsys, "--sample", "--gpus", "8", "--step-seconds", "60")
    assert status == 0
    text = " ".join(printed.out.split())
    assert "It would have warned at step 92 and paged at step 103." in text
    assert "The run collapsed at step 261: 169 steps of lead." in text
    assert "Stopping at the page would have saved 180 steps, 24.0 GPU-hours." in text


def test_it_agrees_with_the_backtest(capsys):
    """Both use the same engine, so they name the same first steps."""
    _, printed = check(capsys, RECORDED, "--json")
    (run,) = json.loads(printed.out)["runs"]
    expected = backtest("x", read_run(RECORDED))
    assert (run["warn_step"], run["page_step"], run["rows"]) == (
        expected["warn_step"],
        expected["page_step"],
        expected["rows"],
    )
    assert (run["outcome"], run["collapse_step"]) == ("critical", 261)
    assert [span["phase"] for span in run["phases"]] == ["warmup", "healthy", "decay", "acceleration", "collapsed"]


def test_the_json_is_strict_though_numbers_are_not_finite(tmp_path, capsys):
    """A number that is not finite is written as a text, as in the API."""
    _, printed = check(capsys, write(tmp_path / "trainer_state.json", dies_at=20), "--json")

    def refuse(name):
        raise AssertionError(name)

    (run,) = json.loads(printed.out, parse_constant=refuse)["runs"]
    assert run["page_step"] == run["collapse_step"] == 20
    assert run["names"] == {"grad/norm": "grad_norm", "reward/mean": "reward"}


def test_what_was_not_logged_is_reported_with_its_cost(tmp_path, capsys):
    """A quiet log without entropy and likelihood is no healthy run."""
    status, printed = check(capsys, write(tmp_path / "trainer_state.json"))
    text = " ".join(printed.out.split())
    assert status == 0
    assert "QUIET" in text
    assert "HEALTHY" not in text
    assert "this is no sign of health" in text
    assert "entropy/mean: no phase but a collapse is recognised" in text


def test_each_finding_names_its_suspect_and_the_instrument_first_where_the_numbers_are_doubtful(tmp_path, capsys):
    """A log whose numbers differ from recomputed ones ends in NaN: terminal, JSON and page say the same."""
    log = write(tmp_path / "trainer_state.json", dies_at=20, **{"instrument/logprob_abs": 0.4})
    _, printed = check(capsys, log, "--html", tmp_path / "report.html")
    assert "instrument first:" in " ".join(printed.out.split())
    assert "<td>instrument first: instrument_gap</td>" in (tmp_path / "report.html").read_text()
    _, printed = check(capsys, log, "--json")
    (run,) = json.loads(printed.out)["runs"]
    suspects = {episode["kind"]: (episode["suspect"], episode["instrument_alerts"]) for episode in run["episodes"]}
    assert suspects["instrument_gap"] == ("instrument", [])
    assert suspects["non_finite"] == ("unknown", ["instrument_gap"])


@pytest.mark.parametrize(
    ("dies_at", "fail_on", "status"),
    [(20, "critical", 3), (20, "warning", 3), (None, "critical", 0), (None, "warning", 0), (20, None, 0)],
)
def test_continuous_integration_gets_an_exit_status(tmp_path, capsys, dies_at, fail_on, status):
    """3 where something at the severity was found, 0 otherwise, and always 0 where nothing was asked."""
    log = write(tmp_path / "trainer_state.json", dies_at=dies_at)
    assert check(capsys, log, *(["--fail-on", fail_on] if fail_on else []))[0] == status


def test_a_log_of_which_nothing_is_read_does_not_pass(tmp_path, capsys):
    """The status is 4, because not observed is never healthy; `--map` names the signal."""
    (tmp_path / "own.csv").write_text("step,mine\n" + "".join(f"{step},0.5\n" for step in range(30)))
    status, printed = check(capsys, tmp_path / "own.csv", "--fail-on", "critical")
    assert status == 4
    assert "NOT OBSERVED" in printed.out
    assert "not signals: mine" in printed.out
    assert check(capsys, tmp_path / "own.csv", "--fail-on", "critical", "--map", "reward/mean=mine")[0] == 0


def test_a_run_without_a_step_beside_others_does_not_pass(tmp_path, capsys):
    """It may have crashed before its first step; it is named, as a file that could not be read."""
    (tmp_path / "b").mkdir()
    write(tmp_path / "a.json")
    begun = write(tmp_path / "b" / "trainer_state.json", count=0)
    for paths in ([tmp_path], [tmp_path / "a.json", begun]):
        status, printed = check(capsys, *paths, "--fail-on", "critical")
        assert status == 4
        assert f"{begun} must hold at least one logged step" in printed.err
        assert check(capsys, *paths)[0] == 0
    with pytest.raises(AssertionError, match="NOT OBSERVED"):
        assert_healthy(tmp_path)
    assert check(capsys, write(tmp_path / "c.json", dies_at=20), begun, "--fail-on", "critical")[0] == 3


def test_a_length_of_a_thousand_tokens_is_written_out(tmp_path, capsys):
    """And not as 1.02e+03."""
    rows = "".join(f"{step},{1000 + step},1e-7,12345678\n" for step in range(20))
    (tmp_path / "long.csv").write_text(f"step,completion_length,kl,grad_norm\n{rows}")
    output = check(capsys, tmp_path / "long.csv")[1].out
    assert "1,000 to 1,019" in output
    assert "1.23e+07 to 1.23e+07" in output
    assert "1e-07 to 1e-07" in output


def test_a_learning_rate_alone_does_not_pass(tmp_path, capsys):
    """It is a configuration: of the run itself nothing was observed. The step is not listed as a key that is unused."""
    (tmp_path / "rate.csv").write_text("Step,lr\n" + "".join(f"{step},1e-6\n" for step in range(30)))
    status, printed = check(capsys, tmp_path / "rate.csv", "--fail-on", "critical")
    assert status == 4
    assert "1 signal under its own name" in printed.out
    assert "not signals" not in printed.out


def test_a_signal_that_was_read_under_several_names_is_named(tmp_path, capsys):
    """A sum over the batch and the reward of a printed sample alternate; a section makes no other name."""
    rows = [{"total_reward": 144.0, "kl": 0.1}] * 40 + [{"reward": 0.0, "train/kl": 0.1}] * 4
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    note = "reward/mean was read under several names: in 40 rows as 'total_reward' and in 4 rows as 'reward'."
    printed = check(capsys, tmp_path / "a.jsonl")[1].out
    assert note in " ".join(printed.split())
    assert "kl/ref was read under several names" not in printed
    (whole,) = json.loads(check(capsys, tmp_path / "a.jsonl", "--json")[1].out)["runs"]
    assert [each for each in whole["notes"] if each.startswith(note)]
    mapped = check(capsys, tmp_path / "a.jsonl", "--map", "reward/mean=total_reward")[1].out
    assert "several names" not in mapped


def test_a_key_that_no_log_has_does_not_pass(tmp_path, capsys):
    """Status 4 where a mapped signal was read from no log, and 0 where one log of several has it."""
    for name, key in (("a", "mine"), ("b", "other")):
        rows = "".join(f"{step},0.5,0.1\n" for step in range(30))
        (tmp_path / f"{name}.csv").write_text(f"step,{key},kl\n{rows}")
    status, printed = check(capsys, tmp_path / "a.csv", "--fail-on", "critical", "--map", "reward/mean=none")
    assert status == 4
    assert "--map reward/mean=none: no row has this key" in printed.out
    assert check(capsys, tmp_path, "--fail-on", "critical", "--map", "reward/mean=mine")[0] == 0
    with pytest.raises(AssertionError, match="reward/mean = none: no row has this key"):
        assert_healthy(tmp_path, names={"reward/mean": "none"})
    with pytest.raises(ValueError, match=r"names must map signals .* got reward/meen"):
        assert_healthy(tmp_path, names={"reward/meen": "mine"})


@pytest.mark.parametrize("option", [("--step-seconds", "inf"), ("--gpus", "100000000000"), ("--step-seconds", "nan")])
def test_hours_are_not_computed_from_impossible_numbers(tmp_path, capsys, option):
    """Infinitely many saved hours would be no report."""
    assert main(["check", str(write(tmp_path / "dies.json", dies_at=20)), *option]) == 2
    assert option[0] in capsys.readouterr().err


@pytest.mark.parametrize("time", ["Infinity", "1e300"])
def test_hours_are_not_computed_from_impossible_times(tmp_path, capsys, time):
    """A clock may be wrong; a step of no known length has no hours."""
    log = tmp_path / "x.jsonl"
    rows = [(step, "NaN" if step > 20 else 1.0, time if step > 1 else 0) for step in range(1, 40)]
    log.write_text("".join(f'{{"step": {s}, "grad_norm": {g}, "_timestamp": {t}}}\n' for s, g, t in rows))
    _, printed = check(capsys, log, "--gpus", "8", "--json")
    (run,) = json.loads(printed.out)["runs"]
    assert (run["step_seconds"], run["saved"]["gpu_hours"]) == (None, None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"\x00\x01\x02\xff" * 100, "its content is in no known format"),
        (b"\x28\xb5\x2f\xfd\x04\x00" * 9, "it is compressed; decompress it with `zstd -d` first"),
        (b"PK\x03\x04\x14\x00 a.jsonl {}\n" + b'{"step": 1, "reward": 0.5}\n' * 9, "it is an archive; unpack it"),
        (b"\x1f\x8b" + b"\xff" * 99, "it is compressed, and damaged at its beginning"),
        (
            b"nothing to see\nhere\n",
            "must hold at least one logged step; none was found in it as console log. A step is",
        ),
        (b'{"log_history": 3}', "must hold log_history of JSON objects; found none"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, capsys, content, says):
    """The exit status is 1, and one line names the file and the reason."""
    path = tmp_path / "x.json"
    path.write_bytes(content)
    status, printed = check(capsys, path)
    (line,) = printed.err.splitlines()
    assert (status, printed.out) == (1, "")
    assert str(path) in line
    assert says in line


def test_without_a_path_it_says_what_to_type(capsys):
    """Status 1."""
    status, printed = check(capsys)
    assert status == 1
    assert "rlvitals check --sample" in printed.err


@pytest.mark.parametrize("command", ["check", "backtest", "calibrate", "replay"])
def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys, command):
    """A script with an unset variable neither checks nor sends the files of its current folder."""
    write(tmp_path / "trainer_state.json")
    monkeypatch.chdir(tmp_path)
    assert main([command, ""]) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "the path of a log or a folder of logs must not be empty" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trainer_state.json"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (".", "is a folder"),
        ("none/page.html", "there is no folder"),
        ("trainer_state.json", "another file than the logs"),
        ("./a/../trainer_state.json", "another file than the logs"),
    ],
)
def test_a_page_that_has_no_place_is_refused_before_the_logs_are_read(tmp_path, monkeypatch, capsys, page, message):
    """The report of a long log would be lost, or the log itself."""
    log = write(tmp_path / "trainer_state.json")
    (tmp_path / "a").mkdir()
    before = log.read_bytes()
    monkeypatch.chdir(tmp_path)
    status, printed = check(capsys, log, "--html", page)
    assert (status, printed.out) == (1, "")
    assert message in printed.err
    assert log.read_bytes() == before


def test_a_time_between_two_looks_that_no_clock_can_wait_for_is_refused(tmp_path, capsys):
    """A sleep without an end is an error of the system."""
    assert main(["check", "--follow", str(write(tmp_path / "x.json")), "--interval", "inf"]) == 2
    assert "--interval" in capsys.readouterr().err


def write_rows(path, rows):
    """Write JSON lines: a step and a gradient norm each."""
    lines = [json.dumps({"step": step, "grad/norm": norm, "entropy/mean": 1.0}) for step, norm in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_that_goes_back_is_drawn_over_all_its_steps(tmp_path, capsys):
    """Its last step may be its lowest; the alarm stands below the row at which it was raised."""
    rows = [*((step, 1.0) for step in range(1000, 1020)), *((step, math.nan) for step in range(1, 21))]
    status, printed = check(capsys, write_rows(tmp_path / "run.jsonl", rows), "--html", tmp_path / "page.html")
    assert status == 0
    assert "It would have paged at step 1." in printed.out
    phases, alarm = printed.out.splitlines()[4:6]
    assert alarm.index("^") == phases.index("X")
    page = (tmp_path / "page.html").read_text()
    # 20 steps of 1,019 are 11 units of 560: the attempts lie at the two ends.
    (points,) = re.findall(r'class="trace" points="([^"]+)"', page.partition("entropy/mean</span>")[2])[:1]
    places = [float(point.partition(",")[0]) for point in points.split()]
    assert min(places) < 1.0
    assert max(places) > 559.0
    assert sum(1.0 * 11 < place < 548.0 for place in places) == 0


def test_numbers_as_large_as_numbers_can_be_are_drawn(tmp_path, capsys):
    """Their difference is infinite."""
    rows = [(step, 1.7e308 if step % 2 else -1.7e308) for step in range(40)]
    status, printed = check(capsys, write_rows(tmp_path / "run.jsonl", rows), "--html", tmp_path / "page.html")
    assert status == 0
    assert "-1.7e+308 to 1.7e+308" in " ".join(printed.out.split())
    assert re.findall(r"points=\"[^\"]*(?:nan|inf)", (tmp_path / "page.html").read_text()) == []


def test_hostile_names_reach_neither_terminal_nor_page(tmp_path, capsys):
    """Keys, run names and problems are escaped in both."""
    folder = tmp_path / ("a" + HOSTILE.replace("/", ""))
    folder.mkdir()
    log = write(folder / "trainer_state.json", dies_at=20, **{HOSTILE: 1.0})
    status, printed = check(capsys, log, "--html", tmp_path / "page.html")
    assert status == 0
    assert all(character.isprintable() or character == "\n" for character in printed.out)
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page


def test_the_page_loads_nothing(tmp_path, capsys):
    """The page is one file without scripts and addresses, and its policy forbids both."""
    check(capsys, "--sample", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert re.findall(r"https?://|<script|<link|<img|url\(|@import", page) == []
    assert "default-src 'none'" in page
    assert page.count("<figure>") == 7


def test_many_runs_are_a_line_each(tmp_path, capsys):
    """A folder of runs is a table; each name leads to its report."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "trainer_state.json", dies_at=20 if name == "b" else None)
    status, printed = check(capsys, tmp_path, "--html", tmp_path / "all.html")
    assert status == 0
    assert [line.split()[:2] for line in printed.out.splitlines()[1:5]] == [
        ["quiet", "a"],
        ["critical", "b"],
        ["quiet", "c"],
        ["quiet", "d"],
    ]
    assert (tmp_path / "all.html").read_text().count("<article id=") == 4


def test_a_log_that_is_being_written_is_followed_until_it_fails(tmp_path):
    """A monitor for a training that cannot be touched: status 3 ends the loop where the run becomes critical."""
    log = tmp_path / "train.log"
    command = [sys.executable, "-u", "-m", "monitor_server", "check", str(log), "--follow"]
    with subprocess.Popen(
        [*command, "--interval", "0.05", "--fail-on", "critical"], stdout=subprocess.PIPE, text=True
    ) as watcher:
        assert "watching" in watcher.stdout.readline()
        ended = threading.Event()
        threading.Thread(target=lambda: (watcher.wait(), ended.set())).start()
        with log.open("w") as file:
            for step in range(1, 2000):
                gone = step >= 20
                file.write(
                    f"step {step}: {{'reward': {0.5 + step % 3 / 100}, 'grad_norm': {'nan' if gone else 1.0}}}\n"
                )
                file.flush()
                if step > 40 and ended.wait(0.1):
                    break
        assert ended.wait(60)
        assert watcher.returncode == 3
        lines = watcher.stdout.readlines()
        assert any(line.startswith("step     20  CRITICAL  non_finite: ") for line in lines)
        steps = [line.split()[1] for line in lines if line.startswith("step ")]
        assert steps == sorted(steps, key=int), "a finding is printed before a newer step"


@pytest.mark.parametrize(("status", "cancelled"), [(0, ""), (1, ""), (2, ""), (3, "123\n"), (130, ""), (143, "")])
def test_the_documented_check_beside_a_training_ends_it_only_at_an_alarm(status, cancelled):
    """A wrong option, a full disk or Ctrl-C ends the check, and says nothing about the training."""
    blocks = (Path(__file__).parents[4] / "docs/check.md").read_text().split("```")
    (lines,) = [block.removeprefix("sh") for block in blocks if "scancel" in block]
    script = f'rlvitals() {{ return {status}; }}\nscancel() {{ echo "$1"; }}\n{lines}'
    done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == cancelled


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        (("--follow",), ("--json",)),
        (("--follow",), ("--serve",)),
        (("--follow",), ("--html", "report.html")),
        (("--serve",), ("--json",)),
        (("--serve",), ("--html", "report.html")),
        (("--serve",), ("--fail-on", "critical")),
        (("--follow",), ("--gpus", "8")),
        (("--serve",), ("--step-seconds", "0")),
    ],
)
def test_following_and_serving_refuse_what_they_do_not_do(tmp_path, capsys, kept, refused):
    """A page that is never written would be missed only when the run is over."""
    write(tmp_path / "trainer_state.json")
    assert main(["check", str(tmp_path), *kept, *refused]) == 1
    assert f"and cannot be combined with {refused[0]}" in capsys.readouterr().err


def test_a_time_between_two_looks_is_refused_where_the_log_is_read_once(tmp_path, capsys):
    """Who gives it believes that the log is being watched."""
    status, printed = check(capsys, write(tmp_path / "trainer_state.json"), "--interval", "7")
    assert (status, printed.out) == (1, "")
    assert "a check without --follow reads the logs once and cannot be combined with --interval" in printed.err


def test_a_test_asserts_that_a_log_is_healthy(tmp_path):
    """`assert_healthy` passes a quiet log and fails with the report as its message."""
    assert_healthy(write(tmp_path / "quiet.json"))
    with pytest.raises(AssertionError, match=r"(?s)CRITICAL  dies.*not finite"):
        assert_healthy(write(tmp_path / "dies.json", dies_at=20))
    (tmp_path / "own.csv").write_text("step,mine\n1,0.5\n2,0.5\n")
    with pytest.raises(AssertionError, match="NOT OBSERVED"):
        assert_healthy(tmp_path / "own.csv")
    assert_healthy(tmp_path / "own.csv", names={"reward/mean": "mine"})
    with pytest.raises(ValueError, match="fail_on must be"):
        assert_healthy(tmp_path / "own.csv", fail_on="never")


def test_it_needs_none_of_the_servers_libraries():
    """The plain install has the command: FastAPI, SQLAlchemy, pydantic-settings and torch are never imported."""
    absent = (
        "fastapi",
        "sqlalchemy",
        "pydantic_settings",
        "uvicorn",
        "prometheus_client",
        "torch",
        "pyarrow",
        "pandas",
    )
    code = (
        f"import sys\nfor name in {absent!r}: sys.modules[name] = None\n"
        "from monitor_server.commands.main import main\nsys.exit(main(['check', '--sample', '--fail-on', 'critical']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("library", ["uvicorn", "dash"])
def test_a_dashboard_without_its_libraries_is_refused_in_one_line(library):
    """`--serve` on an install without the server, or with the server alone, names what to install."""
    code = (
        f"import sys\nsys.modules['{library}'] = None\nfrom monitor_server.commands.main import main\n"
        "sys.exit(main(['check', '--sample', '--serve']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"rlvitals: `rlvitals check --serve` needs {library}, which is not installed: "
        "pip install 'rlvitals[server,dashboard]'\n"
    )


def test_a_log_that_is_refused_costs_the_dashboard_no_other_log(tmp_path):
    """`--serve` names it and shows the others until Ctrl-C."""
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / f"{'n' * 210}.json")
    write(tmp_path / "b.json")
    command = [sys.executable, "-u", "-m", "monitor_server", "check", str(tmp_path), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as serving:
        printed = []
        for line in serving.stdout:
            printed.append(line)
            if "until Ctrl-C" in line:
                serving.send_signal(signal.SIGINT)
    assert serving.returncode == 0, printed
    assert any("rename it" in line for line in printed)
    assert any(line.startswith("b: 30 steps") for line in printed)


def test_a_terminal_without_unicode_gets_letters(tmp_path):
    """A report can be read where the encoding is ASCII."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "monitor_server", "check", "--sample"]
    done = subprocess.run(command, capture_output=True, check=True, env=environment, cwd=tmp_path)
    assert done.stdout.isascii()
    assert b"wwh" in done.stdout


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_checked_log_opens_in_a_dashboard(tmp_path, ending):
    """`--serve` starts its own collector, sends it the run, and keeps nothing after Ctrl-C or SIGTERM.

    A collector with one of these settings would end at its start, or would not show the run.
    """
    settings = {"RLVITALS_ROLE": "ingest", "RLVITALS_NOTIFICATIONS": "gone.toml", "rlvitals_rules_file": "gone.toml"}
    environment = os.environ | {"TMPDIR": str(tmp_path)} | settings
    calibration = tmp_path / "calibration.json"
    calibration.write_text(json.dumps({"id": "own-1", "detectors": DETECTOR_VERSION, "profiles": {}}))
    log, begun = write(tmp_path / "trainer_state.json", dies_at=20), tmp_path / "begun.log"
    begun.write_text("nothing was logged yet\n" * 5)
    readable, writable = os.pipe()
    with open(readable) as output:  # noqa: PTH123 - a descriptor, not a path
        command = ["-m", "monitor_server", "check", str(begun), str(log), "--serve", "--calibration", str(calibration)]
        process = warm.start(command, env=environment, stdout=writable)
        os.close(writable)
        try:
            opened = next(line for line in output if "The dashboard is at" in line)
            url = opened.split()[4]
            (run,) = json.loads(urllib3.request("GET", f"{url}/api/v1/runs", timeout=30).data)["items"]
            assert (run["project"], run["status"], run["last_step"]) == ("check", "finished", 30)
            path = f"/api/v1/runs/{run['id']}/expected-ranges"
            assert json.loads(urllib3.request("GET", f"{url}{path}", timeout=30).data)["calibration"] == "own-1"
            os.kill(process.pid, ending)
            output.read()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert {path.name for path in tmp_path.iterdir()} == {"begun.log", "calibration.json", "trainer_state.json"}


def test_a_calibration_that_is_not_there_opens_no_dashboard(tmp_path, capsys):
    """It would show the alerts of other thresholds."""
    status, printed = check(capsys, write(tmp_path / "trainer_state.json"), "--serve", "--calibration", "gone.json")
    assert (status, printed.out) == (1, "")
    assert "the calibration must be a file that `rlvitals calibrate` wrote" in printed.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("check", "--fail-on", "critical"), "interrupted before the logs were read; there is no verdict"),
        (("calibrate", "--write", "calibration.json"), "interrupted before the command had done its work"),
    ],
    ids=["check", "calibrate"],
)
def test_an_interrupted_command_does_not_pass(tmp_path, command, said):
    """Ctrl-C while a log is read: no verdict is no healthy run, and a script must not go on with an old file."""
    log = tmp_path / "long.jsonl"
    log.write_text("".join(f'{{"step": {step}, "reward": 0.5, "entropy": 0.4}}\n' for step in range(200_000)))
    command = [sys.executable, "-m", "monitor_server", *command, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

        def is_reading():
            for each in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # it was closed meanwhile
                    if each.readlink() == log:
                        return True
            return False

        eventually(is_reading)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert errors == f"rlvitals: {said}\n"


@pytest.mark.parametrize("arguments", [("check", "--sample"), ("--help",)], ids=" ".join)
def test_a_full_disk_is_reported_in_one_line(arguments):
    """The report of a check, or the help, may be written to a file."""
    command = [sys.executable, "-m", "monitor_server", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "rlvitals: the output must be written to a place that has room: No space left on device\n"


def _lines(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


REPEATED = "2,999 rows have the same step as the previous row but other values, first row 2 with step 7"
UNUSABLE = "2 rows have a step that is not a whole number below 2**53, first row 2 with 1e+17"


@pytest.mark.parametrize(
    ("rows", "note", "count"),
    [
        ([{"step": 7, "reward": number / 3_000, "lr": 1e-6} for number in range(3_000)], REPEATED, 1),
        ([{"step": step, "reward": 0.5, "lr": 1e-6} for step in (0, 1e17, 2.5)], UNUSABLE, 3),
    ],
    ids=["one step", "no steps"],
)
def test_rows_that_are_no_step_of_their_own_are_named_in_every_report(tmp_path, capsys, rows, note, count):
    """A log of one step would otherwise look like a short run, and one with renumbered steps like another run."""
    log = _lines(tmp_path / "log.jsonl", rows)
    _, printed = check(capsys, log, "--html", tmp_path / "page.html")
    assert note in " ".join(printed.out.split())
    assert note in (tmp_path / "page.html").read_text()
    _, printed = check(capsys, log, "--json")
    (found,) = json.loads(printed.out)["runs"]
    assert found["rows"] == count
    (shown,) = found["notes"]
    assert shown.startswith(note)


def test_the_table_of_many_runs_has_their_notes(tmp_path, capsys):
    """Below the table, with the name of the run; a run without one has none."""
    for number in range(4):
        rows = [{"step": 7 if number == 2 else step, "reward": step / 3_000, "lr": 1e-6} for step in range(3_000)]
        _lines(tmp_path / f"log-{number}.jsonl", rows)
    _, printed = check(capsys, tmp_path)
    said = " ".join(printed.out.split())
    assert f"log-2.jsonl: {REPEATED}" in said or f"log-2: {REPEATED}" in said
    assert said.count("rows have the same step") == 1


def test_rows_that_complete_each_other_are_no_matter(tmp_path, capsys):
    """A step may be logged in parts, and a number twice, also where it is not finite."""
    nan = float("nan")
    rows = [{"step": 1, "reward": 0.5}, {"step": 1, "grad_norm": nan}, {"step": 1, "reward": 0.5, "grad_norm": nan}]
    _, printed = check(capsys, _lines(tmp_path / "log.jsonl", [*rows, {"reward": 0.5}]), "--json")
    assert json.loads(printed.out)["runs"][0]["notes"] == []


def test_a_bad_number_that_comes_too_late_for_its_step_is_a_contradiction(tmp_path, capsys):
    """The first value counts, so the report must not hide that another one was NaN."""
    rows = [{"step": 1, "reward": 0.5}, {"step": 1, "reward": float("nan")}]
    _, printed = check(capsys, _lines(tmp_path / "log.jsonl", rows), "--json")
    assert json.loads(printed.out)["runs"][0]["notes"][0].startswith("1 row has the same step as the previous row")


def test_a_key_of_a_megabyte_does_not_fill_the_terminal(tmp_path, capsys):
    """Its beginning identifies it; the JSON has the whole key."""
    (tmp_path / "x.jsonl").write_text(json.dumps({"step": 1, "reward": 0.5, "x" * 1_000_000: 1.0}) + "\n")
    _, printed = check(capsys, tmp_path / "x.jsonl")
    assert len(printed.out) < 10_000
    assert "x" * 70 in printed.out


def test_standard_input_and_pipes_are_refused_with_the_next_step(capsys):
    """Many programs read `-`; here it would be a file that does not exist."""
    for name in ("-", "/dev/zero"):
        status, printed = check(capsys, name)
        assert (status, printed.out) == (1, "")
        assert re.search("written to a file first|write its content to one", printed.err)
