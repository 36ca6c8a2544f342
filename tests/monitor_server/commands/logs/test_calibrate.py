"""`rlvitals calibrate` on files: the file that it writes, the readers of that file, and its refusals."""

import json
import math
import os
from pathlib import Path

import pytest

from monitor_server.commands.main import main
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.errors import StartupError
from monitor_server.importers.calibration_file import load_calibration

WARRANTY = {"steps_per_page": 9, "runs": 1, "steps": 9, "longest": 9, "weight": 0.0}


def write_runs(folder, count, *, spikes=(), nan=()):
    """Write runs of 40 flat rows; some with a loss that spikes, or that is not a number."""
    for number in range(count):
        run = folder / f"run{number:02}"
        run.mkdir(parents=True)
        loss = 0.01 + 1e-9 * number  # no run is a copy of another one
        rows = [{"step": step, "reward/mean": 0.5 + 0.001 * (step % 3), "loss/policy": loss} for step in range(40)]
        if number in spikes:
            rows[30]["loss/policy"] = 500.0 * (1 + number)
        if number in nan:
            rows[30]["loss/policy"] = math.nan
        (run / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_healthy_runs_set_thresholds_that_backtest_reads(tmp_path, capsys):
    """19 runs, two of which warn at the built-in thresholds, one hard: at 5 %, neither does any more."""
    runs = write_runs(tmp_path / "runs", 19, spikes=(2, 7))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(runs), "--write", str(file)]) == 0
    output = capsys.readouterr().out
    assert "large batch: 19 healthy runs" in output
    assert (
        "warned: 2 at the built-in thresholds; strength beyond 40 (rank 19 of 19, at most 0.05 of new ones)" in output
    )
    assert "paged: not calibrated. At most 0.01 of healthy runs needs n >= 1/0.01 - 1 = 99 runs, got 19" in output
    content = json.loads(file.read_text())
    assert content["detectors"] == DETECTOR_VERSION
    warned = []
    for options in ([], ["--calibration", str(file)]):
        assert main(["backtest", str(runs), "--json", *options]) == 0
        report = json.loads(capsys.readouterr().out)
        warned.append(report["summary"]["warned"])
        ids = {f["evidence"]["calibration"] for entry in report["runs"] for f in entry["findings"]}
        assert ids == {content["id"] if options else DETECTOR_VERSION}
    assert warned == [2, 0]


def test_too_few_runs_are_refused_in_numbers(tmp_path, capsys):
    """Three runs bound nothing below a quarter; no file is written."""
    file = tmp_path / "own.json"
    assert main(["calibrate", str(write_runs(tmp_path / "runs", 3)), "--write", str(file)]) == 1
    output = capsys.readouterr().out
    assert "needs n >= 1/0.05 - 1 = 19 runs, got 3: add 16, or ask for 0.25 at least" in output
    assert not file.exists()


@pytest.mark.parametrize("count", [3, 19, 30])
def test_a_run_with_a_nan_is_refused_and_named_among_any_number(tmp_path, capsys, count):
    """Its steps would count as healthy ones, so neither thresholds nor ranges nor a warranty are written."""
    runs = write_runs(tmp_path / "runs", count, nan=(1,))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(runs), "--write", str(file), "--one-page-in", "40"]) == 1
    output = capsys.readouterr().out
    assert f"not calibrated: 1 of {count} runs cannot be healthy" in output
    assert "run01: non_finite at step 30: loss/policy is not finite" in output
    assert "leave them out, or correct the values" in output
    assert not file.exists()


def test_many_runs_with_a_nan_are_counted_and_the_first_are_named(tmp_path, capsys):
    """Of 30 runs seven are refused: five lines and a number, however many there are; without them 23 suffice."""
    runs = write_runs(tmp_path / "runs", 30, nan=range(7))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(runs), "--write", str(file)]) == 1
    output = capsys.readouterr().out
    assert "7 of 30 runs cannot be healthy" in output
    assert output.count("non_finite at step 30") == 5
    assert "and 2 more" in output
    healthy = [str(run) for run in sorted(runs.iterdir())[7:]]
    assert main(["calibrate", *healthy, "--write", str(file), "--one-page-in", "40"]) == 0
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert (warranty.runs, warranty.steps) == (23, 23 * 40)


@pytest.mark.parametrize("lacks", ["thinned", "quarantined"])
def test_an_export_that_lacks_steps_is_left_out_and_named(tmp_path, capsys, lacks):
    """Its alarms are not those of a live run, so that a new run could not be swapped with it."""
    steps = [{"step": s, "attempt": 1, "time": 1.0 + s, "signals": {"reward/mean": 0.5}} for s in range(40)]
    for name in ("a", "b"):
        heading = {"rlvitals_export": 1, "run": name, "project": "p", "config": {}, lacks: name == "b"}
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (heading, *steps)))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(tmp_path), "--one-page-in", "40", "--write", str(file)]) == 0
    assert "b.jsonl b lacks" in capsys.readouterr().err
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert (warranty.runs, warranty.steps) == (1, 40)


def test_a_run_that_is_there_twice_counts_once(tmp_path, capsys):
    """A copy is no second healthy run: counted twice, it would pay for twice as many false pages."""
    for name in ("a", "copy-of-a", "b"):
        rows = [{"step": step, "reward/mean": 0.4 if name == "b" else 0.5} for step in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(tmp_path), "--one-page-in", "100", "--write", str(file)]) == 0
    printed = capsys.readouterr()
    assert "copy-of-a.jsonl has the steps of" in printed.err or "copy-of-a.jsonl copy-of-a" in printed.err
    assert "2 of about 3 healthy runs, with 80 of 100 steps" in printed.out


def test_a_run_in_two_formats_counts_once(tmp_path, capsys):
    """The trainer's own log and the JSON lines of the hooks are one healthy run; the hooks have more signals."""
    rewards = [round(0.4 + 0.01 * (step * 7 % 13), 4) for step in range(40)]
    state = {"log_history": [{"step": step, "reward": reward} for step, reward in enumerate(rewards)]}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    rows = [
        {"step": step, "reward/mean": reward + 1e-7, "entropy/mean": 0.4 + 0.001 * (step % 5)}
        for step, reward in enumerate(rewards)
    ]
    (tmp_path / "hooks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "own.json"
    assert main(["calibrate", str(tmp_path), "--one-page-in", "10", "--write", str(file)]) == 0
    assert "so only" in (warned := capsys.readouterr().err)
    assert "hooks.jsonl hooks counts" in warned
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert (warranty.runs, warranty.steps) == (1, 40)


def test_a_mask_that_a_second_computation_contradicts_is_not_called_infinite(tmp_path, capsys):
    """A mask is right or wrong: the alarm has no degree, although every value is finite."""
    rows = [{"step": step, "reward/mean": 0.5, "instrument/mask_frac": 0.01} for step in range(9)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["calibrate", str(tmp_path), "--write", str(tmp_path / "own.json")]) == 1
    output = capsys.readouterr().out
    assert "instrument_gap at step 2" in output
    assert "because no threshold moves an alarm that has no degree" in output


def test_few_runs_give_expected_ranges_and_leave_the_thresholds(tmp_path, capsys):
    """Five runs bound no threshold at 5 %, but say where values are; findings name the built-in ones as before."""
    file = tmp_path / "own.json"
    assert main(["calibrate", str(write_runs(tmp_path / "runs", 5)), "--write", str(file)]) == 0
    output = capsys.readouterr().out
    assert "no threshold was calibrated; the built-in thresholds stand" in output
    assert "expected ranges: 2 signals in intervals before step 48, from 5 runs" in output
    read = load_calibration(file)
    assert (read.id, read.profiles) == (DETECTOR_VERSION, {})
    reward = read.expected["reward/mean"]
    assert (reward.steps, reward.runs) == ((0, 8, 12, 16, 24, 32, 48), 5)
    assert (reward.low[0], reward.high[0]) == pytest.approx((0.5, 0.502))


@pytest.mark.parametrize(
    "expected",
    [
        [1],
        {"a": {}},
        {"a": {"steps": [0, 8], "low": [1], "high": ["x"], "runs": 5}},
        {"a": {"steps": [8, 0], "low": [1], "high": [2], "runs": 5}},
        {str(number): {} for number in range(201)},
    ],
)
def test_a_file_with_impossible_ranges_is_refused(tmp_path, expected):
    """The ranges that a chart would draw are checked at the start."""
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"id": "a", "detectors": DETECTOR_VERSION, "profiles": {}, "expected": expected}))
    with pytest.raises(StartupError, match="must be a file that `rlvitals calibrate` wrote"):
        load_calibration(file)


def test_a_file_of_another_kind_is_refused_with_what_it_lacks(tmp_path):
    """A bare name of a field would not say what is wrong with it."""
    file = tmp_path / "report.json"
    file.write_text('{"runs": []}')
    with pytest.raises(StartupError, match=r"report\.json, which has no 'profiles'$"):
        load_calibration(file)


@pytest.mark.parametrize("share", ["0", "1", "-0.1", "nan"])
def test_a_share_outside_its_range_is_refused(tmp_path, capsys, share):
    """The error is one line, and no log is read."""
    assert main(["calibrate", str(tmp_path), "--warn", share]) == 2
    assert "--warn must lie between 0 and 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "warranty",
    [
        {},
        [],
        {"steps_per_page": 0},
        {"steps_per_page": 9, "runs": -1},
        {"steps_per_page": "x"},
        {"steps": 9},
        {"a": 1},
        WARRANTY | {"gpu_hours_per_page": 0},
        WARRANTY | {"gpu_hours_per_page": "x"},
    ],
)
def test_a_file_with_an_impossible_budget_is_refused(tmp_path, warranty):
    """A collector that starts has a budget that it can compute with."""
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"id": "a", "detectors": DETECTOR_VERSION, "profiles": {}, "warranty": warranty}))
    with pytest.raises(StartupError, match="must be a file that `rlvitals calibrate` wrote"):
        load_calibration(file)


@pytest.mark.parametrize("factor", ["x", None, [1], math.nan, math.inf, -1])
def test_a_file_with_an_impossible_factor_is_refused(tmp_path, factor):
    """Every alarm is compared with it, so that each run's detection would fail at its first one, or open none."""
    file, profiles = tmp_path / "own.json", {"small batch": {"warn": factor, "page": 0.0}}
    file.write_text(json.dumps({"id": "a", "detectors": DETECTOR_VERSION, "profiles": profiles}))
    with pytest.raises(StartupError, match="must be a file that `rlvitals calibrate` wrote"):
        load_calibration(file)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", "[" * 100_000, '{"id": "a", "detectors": "builtin-0", "profiles": {}}', '{"profiles": 3}'],
)
def test_a_file_that_is_no_calibration_of_these_detectors_is_refused(tmp_path, content):
    """The message states what must hold, so that the collector's start ends in one line."""
    file = tmp_path / "own.json"
    file.write_text(content)
    with pytest.raises(StartupError, match="must be"):
        load_calibration(file)


def test_a_budget_is_learnt_from_the_runs_and_holds_pages_back(tmp_path, capsys):
    """20 runs of 40 steps pay for one page in 400; one of them paged, so that a weaker page becomes a warning."""
    runs = write_runs(tmp_path / "runs", 20, spikes=(9,))
    file = tmp_path / "own.json"
    options = ["--write", str(file), "--one-page-in"]
    assert main(["calibrate", str(runs), *options, "400"]) == 0
    output = capsys.readouterr().out
    assert "warranty: one false page in 400 recorded steps, from 20 healthy runs with 800 steps" in output
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert (warranty.runs, warranty.steps, warranty.longest) == (20, 800, 40)


def test_a_budget_that_the_runs_do_not_suffice_for_is_written_and_says_so(tmp_path, capsys):
    """3 runs of 40 steps are 120 of the 10,000 steps; the file states the budget, and no warranty."""
    file = tmp_path / "own.json"
    runs = write_runs(tmp_path / "runs", 3)
    assert main(["calibrate", str(runs), "--write", str(file), "--one-page-in", "10000"]) == 0
    output = capsys.readouterr().out
    assert "no warranty yet: 3 of about 250 healthy runs, with 120 of 10,000 steps" in output
    assert "until then all pages open, and each states that there is no warranty" in output
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert not warranty.is_in_force


def test_gpu_hours_are_converted_to_steps_and_both_are_shown(tmp_path, capsys):
    """One page in 100 GPU-hours at 8 GPUs and 45 s a step is one in 1,000 steps, which 25 runs of 40 steps have."""
    file = tmp_path / "own.json"
    given = ["--one-page-in-gpu-hours", "100", "--gpus", "8", "--step-seconds", "45"]
    assert main(["calibrate", str(write_runs(tmp_path / "runs", 25)), "--write", str(file), *given]) == 0
    warranty = load_calibration(file).warranty
    assert warranty is not None
    assert (warranty.steps_per_page, warranty.gpu_hours_per_page) == (1000.0, 100.0)
    promise = "one false page in 1,000 recorded steps (100 GPU-hours), from 25 healthy runs with 1,000 steps"
    assert f"warranty: {promise}" in capsys.readouterr().out
    assert warranty.describe() == promise


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--one-page-in", "0"], "--one-page-in must be above 0 and finite, got 0"),
        (["--one-page-in", "nan"], "--one-page-in must be above 0 and finite, got nan"),
        (["--one-page-in", "1e-310"], "--one-page-in must be at least 0.001 steps, got 1e-310"),
        (["--gpus", "8"], "have no effect without it"),
        (["--one-page-in-gpu-hours", "9"], "--one-page-in-gpu-hours needs --gpus and --step-seconds"),
        (
            ["--one-page-in-gpu-hours", "1e300", "--gpus", "1e-300", "--step-seconds", "1e-300"],
            "0.001 at least, got inf",
        ),
        (["--one-page-in-gpu-hours", "1e-300", "--gpus", "1e300", "--step-seconds", "1e300"], "0.001 at least, got 0"),
    ],
)
def test_an_impossible_budget_is_refused(tmp_path, capsys, options, message):
    """The error is one line, and no log is read."""
    assert main(["calibrate", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err


def test_signals_are_read_from_keys_of_your_own(tmp_path, capsys):
    """Logs that `check --map` reads can be calibrated as well."""
    rows = "".join(f"{step},{0.5 + step / 1e4}\n" for step in range(40))
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text(f"step,mine\n{rows}{40 + number},0.5\n")
    file = tmp_path / "own.json"
    assert main(["calibrate", str(tmp_path), "--write", str(file), "--map", "reward/mean=mine"]) == 0
    assert list(load_calibration(file).expected) == ["reward/mean"]
    assert main(["calibrate", str(tmp_path), "--write", str(file), "--map", "nothing=mine"]) == 1
    assert "--map must name a signal" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["backtest", "calibrate"])
def test_places_that_were_passed_over_and_unread_keys_are_named(tmp_path, capsys, monkeypatch, command):
    """A half-read run without its reward would look healthy."""
    monkeypatch.chdir(tmp_path)
    runs = write_runs(tmp_path / "runs", 2)
    with (runs / "run00" / "data.jsonl").open("a") as file:
        file.write("{damaged\n" * 5 + '{"step": 39, "reward/mean": 9.0}\n')
    arguments = [str(runs), "--map", "reward/mean=typo", "--map", "loss/policy=loss/policy"]
    main([command, *arguments])
    printed = " ".join(capsys.readouterr().err.split())
    assert printed.count("passed over: data.jsonl, line 4") == 3
    assert "5 places were passed over" in printed
    assert "1 row has the same step as the previous row but other values" in printed
    assert printed.count("--map reward/mean=typo: no row has this key") == 1
    assert "--map loss/policy" not in printed


def test_a_log_that_cannot_be_read_costs_no_other_log(tmp_path, capsys):
    """It is named and left out, as a log without a step is."""
    runs = write_runs(tmp_path / "runs", 5)
    (runs / "cut").mkdir()
    (runs / "cut" / "data.jsonl.gz").write_bytes(b"\x1f\x8b damaged")
    assert main(["calibrate", str(runs), "--write", str(tmp_path / "own.json")]) == 0
    printed = capsys.readouterr()
    assert "5 healthy runs" in printed.out
    assert f"{runs}/cut/data.jsonl.gz must be a readable log" in printed.err


def test_a_log_without_a_step_is_no_healthy_run(tmp_path, capsys):
    """18 healthy runs and an empty one are too few for 5 %; the one that was left out is named."""
    runs = write_runs(tmp_path / "runs", 18)
    (runs / "empty").mkdir()
    (runs / "empty" / "data.jsonl").write_text("Traceback (most recent call last):\n" * 9)
    file = tmp_path / "own.json"
    main(["calibrate", str(runs), "--write", str(file)])
    printed = capsys.readouterr()
    assert "large batch: 18 healthy runs" in printed.out
    assert "small batch: 0 healthy runs" in printed.out
    assert "empty has no logged step, so no threshold can be calibrated on it; it was left out" in printed.err


def test_a_file_that_cannot_be_written_is_named(tmp_path, capsys):
    """In one line, after the thresholds, which are printed."""
    runs = write_runs(tmp_path / "runs", 19)
    assert main(["calibrate", str(runs), "--write", str(tmp_path / "none" / "own.json")]) == 1
    assert "--write must name a file that can be written" in capsys.readouterr().err


def test_what_has_no_end_is_no_calibration(tmp_path):
    """A device, a pipe, and a file that is longer than any."""
    with pytest.raises(StartupError, match="wrote: /dev/zero must be a file, got a device"):
        load_calibration(Path("/dev/zero"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(StartupError, match="must be a file, got a named pipe"):
        load_calibration(pipe)
    long = tmp_path / "long"
    with long.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(StartupError, match="must hold at most 64 MiB, got more"):
        load_calibration(long)


def test_no_log_is_replaced_with_a_calibration(tmp_path, capsys):
    """A mistyped command would destroy a recorded run."""
    log = write_runs(tmp_path / "runs", 19) / "run07/data.jsonl"
    before = log.read_bytes()
    assert main(["calibrate", str(tmp_path / "runs"), "--write", str(log)]) == 1
    assert f"--write must name another file than the logs, or it would replace {log}" in capsys.readouterr().err
    assert log.read_bytes() == before
