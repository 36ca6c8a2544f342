"""`rlvitals backtest` prints the promised JSON and agrees with the engine."""

import gzip
import json
import math
from pathlib import Path

import pytest

from monitor_server.commands.main import main
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport, RecordedLog
from monitor_server.log_check.advice import saving
from monitor_server.log_check.backtest import backtest
from monitor_server.log_check.examination import Examination, Examiner
from monitor_server.log_check.reports.wording import verdict


def rows(dies_at=None):
    """Return a run that wanders a little and may end in NaN."""
    for step in range(1, 31):
        gone = dies_at is not None and step >= dies_at
        yield {"step": step, "reward": 0.5 + 0.01 * math.sin(step), "grad_norm": math.nan if gone else 1.0}


def write(folder, name, lines):
    """Write one run folder."""
    (folder / name).mkdir()
    with gzip.open(folder / name / "data.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def run(capsys, folder, *, as_json=True):
    """Run the command and return its exit code and its output."""
    code = main(["backtest", str(folder), *(["--json"] if as_json else [])])
    return code, capsys.readouterr()


def test_the_json_has_the_promised_form(tmp_path, capsys):
    """Runs with first warning, first page, episodes and findings; a summary; strict JSON although values are NaN."""
    write(tmp_path, "dies", rows(dies_at=20))
    write(tmp_path, "lives", rows())
    code, printed = run(capsys, tmp_path)
    report = json.loads(printed.out, parse_constant=lambda name: (_ for _ in ()).throw(AssertionError(name)))
    assert code == 0
    dies, lives = report["runs"]
    assert (dies["run"], dies["warn_step"], dies["page_step"], dies["warns"], dies["pages"]) == (
        "dies",
        20,
        20,
        [20],
        [20],
    )
    assert (lives["warn_step"], lives["page_step"], lives["warns"], lives["pages"]) == (None, None, [], [])
    assert dies["findings"][0]["kind"] == "non_finite"
    assert report["summary"] == {
        "runs": 2, "rows": 60, "warned": 1, "paged": 1, "warn_episodes": 1, "page_episodes": 1,
    }  # fmt: skip


def test_a_run_folder_keeps_its_whole_name(tmp_path, capsys):
    """The name is whole also where it ends as a file name would."""
    write(tmp_path, "lives.jsonl", rows())
    write(tmp_path, "trainer_state.json", rows())
    _, printed = run(capsys, tmp_path)
    assert [found["run"] for found in json.loads(printed.out)["runs"]] == ["lives.jsonl", "trainer_state.json"]


def test_the_table_names_the_first_finding(tmp_path, capsys):
    """The table has a line for each run, and a summary."""
    write(tmp_path, "dies", rows(dies_at=20))
    code, printed = run(capsys, tmp_path, as_json=False)
    assert code == 0
    assert "non_finite: grad/norm is not finite, first at step 20." in printed.out
    assert "1 run, 30 rows: 1 warned, 1 paged" in printed.out


def test_a_folder_without_runs_is_one_line_and_code_1(tmp_path, capsys):
    """There is no traceback, and nothing on standard output."""
    code, printed = run(capsys, tmp_path)
    assert code == 1
    assert printed.out == ""
    assert printed.err.startswith("rlvitals: ")


def test_a_log_that_is_damaged_at_its_beginning_is_one_line_and_code_1(tmp_path, capsys):
    """The line names the file; a log that was only cut short is read as far as it goes."""
    write(tmp_path, "cut", rows())
    log = tmp_path / "cut" / "data.jsonl.gz"
    log.write_bytes(log.read_bytes()[:-20])
    assert run(capsys, tmp_path)[0] == 0
    log.write_bytes(b"\x1f\x8b damaged")
    code, printed = run(capsys, tmp_path)
    assert (code, printed.out) == (1, "")
    (line,) = printed.err.splitlines()
    assert line.startswith(f"rlvitals: {log} must be a readable log: ")


def test_a_log_without_a_step_is_one_line_and_code_1(tmp_path, capsys):
    """As for `check`: a table of zero rows would look like a run without an alarm."""
    (tmp_path / "x.log").write_text("nothing to see\n")
    code, printed = run(capsys, tmp_path / "x.log")
    assert (code, printed.out) == (1, "")
    assert "x.log must hold at least one logged step" in printed.err


def test_it_says_what_the_engine_says():
    """The first warning is the first step at which the live engine would have warned."""
    run_steps = [
        Observation(step=s, signals={"loss/policy": 0.1 if s != 25 else 1e6, "reward/mean": 0.5}) for s in range(40)
    ]
    engine = Engine()
    warned = [o.step for o in run_steps if any(f.severity != "info" for f in engine.update(o).findings)]
    assert backtest("x", run_steps)["warn_step"] == min(warned) == 25


@pytest.mark.parametrize(("back_to", "pages"), [(15, [20, 15]), (20, [20, 20]), (21, [20])])
def test_what_is_found_again_after_a_rewind_is_another_page(back_to, pages):
    """The gradient is NaN from step 20 on, and at once after the rewind: the collector opens another alert as well."""
    first = [Observation(step=step, signals={"grad/norm": math.nan if step >= 20 else 1.0}) for step in range(30)]
    again = [Observation(step=step, attempt=2, signals={"grad/norm": math.nan}) for step in range(back_to, 30)]
    found = backtest("r", [*first, *again])
    assert (found["pages"], found["warns"]) == (pages, pages)
    assert [(finding["kind"], finding["step"]) for finding in found["findings"]] == [("non_finite", at) for at in pages]
    log = RecordedLog(name="r", path=Path("r"), format="rows", read=lambda _: iter(()))
    examination = Examination(log=log, mapping=NameMapping(), report=ReadReport())
    examiner = Examiner(examination, Engine())
    for row in [*first, *again]:
        examiner.take(row)
    assert [episode.finding.step for episode in examination.episodes] == pages
    assert (found["page_step"], examination.page_step) == (20, 20)


def test_the_lead_is_counted_in_steps_that_were_trained():
    """The run warns at step 25 of 39, begins again at 1, and collapses at 10: the lower step is the later one."""
    first = [Observation(step=step, signals={"loss/policy": 1e6 if step == 25 else 0.1}) for step in range(40)]
    again = [
        Observation(step=step, attempt=2, signals={"grad/norm": math.nan if step >= 10 else 1.0})
        for step in range(1, 16)
    ]
    log = RecordedLog(name="r", path=Path("r"), format="rows", read=lambda _: iter(()))
    examination = Examination(log=log, mapping=NameMapping(), report=ReadReport())
    examiner = Examiner(examination, Engine())
    for row in [*first, *again]:
        examiner.take(row)
    assert (examination.warn_step, examination.collapse_step, examination.lead) == (25, 10, 24)
    assert "The run collapsed at step 10: 24 steps of lead." in verdict(examination)
    assert saving(examination).steps == 29


def test_a_log_that_cannot_be_read_costs_no_other_log_of_its_folder(tmp_path, capsys):
    """The others are reported, the file is named, and the status says that one is missing."""
    for name in ("a", "c"):
        write(tmp_path, name, rows())
    (tmp_path / "trainer_state.json").write_text('{"global_step": 7, "log_history": 3}')
    code, printed = run(capsys, tmp_path)
    assert code == 1
    assert [entry["run"] for entry in json.loads(printed.out)["runs"]] == ["a", "c"]
    assert f"{tmp_path}/trainer_state.json must hold log_history" in printed.err
