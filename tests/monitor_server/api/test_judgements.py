"""Judgements of alarms as right or wrong: over the API, on the command line, and in the replay of the judged runs.

One test of the command `reassess` is on both databases; the others show what it makes of what the API gives.
"""

import json

import pytest

from monitor_server.commands.main import main
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from tests.live import eventually

NOBODY = "0" * 16


def exploding(steps=40, *, at=30):
    """Return records of a run whose loss becomes huge at one step and stays so; a step takes an hour."""
    return [
        {
            "step": step,
            "time": 1e9 + 3600.0 * step,
            "scalars": {"reward/mean": 0.5, "loss/policy": 0.01 if step < at else 2e5},
        }
        for step in range(steps)
    ]


def paged_run(collector, name="loss"):
    """Return the ids of a run that is paged and of its alert."""
    run_id = collector.run(run=name, records=exploding())
    eventually(lambda: collector.get(f"/runs/{run_id}/alerts", severity="critical")["items"])
    eventually(lambda: collector.get(f"/runs/{run_id}")["last_step"] == 39)
    (alert,) = collector.get(f"/runs/{run_id}/alerts", severity="critical")["items"]
    return run_id, alert["id"]


def judge(collector, alert_id, **body):
    """Judge an alert and return the answer."""
    return collector.pool.request("POST", f"{collector.url}/api/v1/alerts/{alert_id}/judgement", json=body)


def test_the_newest_judgement_of_an_alert_counts_and_all_are_in_its_history(collector):
    """The last judgement counts; the history keeps both, and the audit log has the old and the new one."""
    run_id, alert_id = paged_run(collector)
    assert collector.get(f"/runs/{run_id}/judgements")["items"] == []
    assert judge(collector, alert_id, is_right=False, by="ann").json()["is_right"] is False
    answer = judge(collector, alert_id, is_right=True, failed_at=30, by="bob", note="it was").json()
    assert (answer["kind"], answer["by"], answer["failed_at"]) == ("loss_explosion", "bob", 30)
    assert collector.get(f"/runs/{run_id}/judgements")["items"] == [answer]
    changes = [entry["change"] for entry in collector.get(f"/alerts/{alert_id}/history")["items"]]
    assert changes[:2] == ["judged_right", "judged_wrong"]
    details = [entry["detail"] for entry in collector.get("/audit")["items"] if entry["action"] == "alert.judge"]
    said = f"run {run_id}: loss_explosion: "
    assert details == [f"{said}wrong -> right, failed at step 30: it was", f"{said}wrong"]


def test_a_judgement_of_no_alert_or_with_an_impossible_step_is_refused(collector):
    """404 and 422, as elsewhere."""
    assert judge(collector, NOBODY, is_right=True).status == 404
    _, alert_id = paged_run(collector, "refused")
    assert [judge(collector, alert_id, is_right=True, failed_at=step).status for step in (-1, False, 1.5)] == [422] * 3
    assert judge(collector, alert_id).status == 422
    wrong, beyond = (
        judge(collector, alert_id, is_right=right, failed_at=at) for right, at in ((False, 10), (True, 40))
    )
    assert (wrong.status, beyond.status) == (422, 422)
    assert "body.failed_at: must be left out" in wrong.json()["detail"]
    assert "last recorded step of the run, 39, got 40" in beyond.json()["detail"]
    assert judge(collector, alert_id, is_right=True, failed_at=12.0).json()["failed_at"] == 12


def test_the_same_version_is_as_good_as_what_was_recorded(collector, capsys):
    """The replay of the judged run pages at the same step: one right page, lead 0, and nine hours saved."""
    _, alert_id = paged_run(collector, "same")
    assert main(["alerts", "--right", alert_id, "--failed-at", "30", "--by", "ann", "--url", collector.url]) == 0
    assert "loss_explosion: judged right by ann" in capsys.readouterr().out
    assert main(["reassess", "--json", "--url", collector.url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["worse"] == []
    assert found["current"] == found["recorded"]
    assert found["against"] == {}
    assert found["current"]["pages"] >= 1
    assert main(["reassess", "--url", collector.url]) == 0
    assert "nights disturbed" in capsys.readouterr().out


def test_a_version_that_loses_a_right_page_is_refused_unless_it_is_accepted(sqlite_collector, capsys, tmp_path):
    """A calibration that raises every threshold makes the own history worse, and the command says where."""
    _, alert_id = paged_run(sqlite_collector, "worse")
    assert main(["alerts", "--right", alert_id, "--url", sqlite_collector.url]) == 0
    file = tmp_path / "deaf.json"
    profile = {"warn": 1e9, "page": 1e9}
    profiles = {"large batch": profile, "small batch": profile}
    file.write_text(json.dumps({"id": "deaf", "detectors": DETECTOR_VERSION, "profiles": profiles}))
    options = ["reassess", "--calibration", str(file), "--url", sqlite_collector.url]
    assert main(options) == 3
    output = capsys.readouterr()
    assert "/worse: no page, where there was a right one at step 30" in output.out
    assert "this version is worse than recorded in" in output.err
    assert main([*options, "--accept-worse"]) == 0


def test_each_saved_version_has_a_row_and_a_version_that_is_worse_than_one_is_refused(
    sqlite_collector, capsys, tmp_path
):
    """The recorded alarms are of this version; a saved one that had paged ten steps earlier is better, and is named."""
    run_id, alert_id = paged_run(sqlite_collector, "versions")
    assert main(["alerts", "--right", alert_id, "--failed-at", "30", "--url", sqlite_collector.url]) == 0
    own, earlier, later = (tmp_path / f"{name}.json" for name in ("own", "earlier", "later"))
    assert main(["reassess", "--save", str(own), "--url", sqlite_collector.url]) == 0
    saved = json.loads(own.read_text())
    assert saved["detectors"] == saved["calibration"] == DETECTOR_VERSION
    assert saved["runs"][run_id] == {"pages": [30], "is_warned": True}
    assert main(["reassess", "--against", str(own), "--url", sqlite_collector.url]) == 0
    others = {run: alarms for run, alarms in saved["runs"].items() if run == run_id}
    for file, version, pages in ((earlier, "builtin-0", [20]), (later, "builtin-1", [35])):
        alarms = others[run_id] | {"pages": pages}
        file.write_text(json.dumps({"detectors": version, "calibration": "own-1", "runs": {run_id: alarms}}))
    capsys.readouterr()
    options = ["reassess", "--url", sqlite_collector.url, "--against", str(later)]
    assert main(options) == 0
    assert "builtin-1, own-1" in capsys.readouterr().out
    options += ["--against", str(earlier)]
    assert main(options) == 3
    printed = capsys.readouterr()
    line = "/versions: paged at step 30, where it was paged at step 20"
    assert "worse than builtin-0, own-1: " in printed.out
    assert line in printed.out
    assert "this version is worse than builtin-0, own-1 in 1 of 1 judged runs" in printed.err
    assert main([*options, "--accept-worse", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["against"]
    assert {version: (row["runs"], row["lead"], len(row["worse"])) for version, row in found.items()} == {
        "builtin-1, own-1": (1, 0.0, 0),
        "builtin-0, own-1": (1, 10.0, 1),
    }


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        "[" * 100_000,
        '{"detectors": "builtin-1", "calibration": "a"}',
        '{"detectors": "recorded", "calibration": "recorded", "runs": {}}',
        '{"detectors": "builtin-1", "calibration": "", "runs": {}}',
        '{"detectors": "builtin-1", "calibration": "a", "runs": {"r": {"pages": [-1], "is_warned": true}}}',
        '{"detectors": "builtin-1", "calibration": "a", "runs": {"r": {"pages": ["x"], "is_warned": true}}}',
        '{"detectors": "builtin-1", "calibration": "a", "runs": {"r": {"pages": [NaN], "is_warned": 1}}}',
    ],
)
def test_a_file_that_reassess_did_not_write_is_refused(content, capsys, tmp_path):
    """In one line, before a collector is asked."""
    file = tmp_path / "saved.json"
    file.write_text(content)
    assert main(["reassess", "--against", str(file)]) == 1
    assert "--against must name a file that `rlvitals reassess --save` wrote" in capsys.readouterr().err


def test_without_a_judged_alarm_no_file_is_written_and_the_command_says_so(start_collector, capsys, tmp_path):
    """There is nothing to compare a later version with."""
    file = tmp_path / "own.json"
    assert main(["reassess", "--save", str(file), "--url", start_collector().url]) == 0
    assert "no alarm was judged yet" in (printed := capsys.readouterr().out)
    assert f"{file} was not written" in printed
    assert not file.exists()


def test_an_alert_about_the_collector_itself_is_no_alarm_that_a_version_could_lose(start_collector, scripted, capsys):
    """Detection failed at one step: the alert about it was right, and the run has not failed."""
    live = start_collector(engine=scripted)
    run_id = live.run(run="r", records=[{"step": step, "scalars": {"fail": float(step == 3)}} for step in range(6)])
    eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] == 5)
    (alert,) = live.get(f"/runs/{run_id}/alerts")["items"]
    assert (alert["kind"], judge(live, alert["id"], is_right=True).status) == ("monitor_degraded", 200)
    assert main(["reassess", "--url", live.url]) == 0
    assert "no alarm was judged yet" in capsys.readouterr().out


def test_versions_are_named_once_and_files_that_cannot_be_used_are_named(capsys, tmp_path, sqlite_collector):
    """Two files of one version, a device, and a folder that is not there."""
    file = tmp_path / "saved.json"
    file.write_text('{"detectors": "builtin-1", "calibration": "builtin-1", "runs": {}}')
    assert main(["reassess", "--against", str(file), "--against", str(file)]) == 1
    assert "--against must name each version once, got two files of builtin-1" in capsys.readouterr().err
    assert main(["reassess", "--against", "/dev/zero"]) == 1
    assert "/dev/zero must be a file, got a device" in capsys.readouterr().err
    _, alert_id = paged_run(sqlite_collector, "unwritten")
    assert main(["alerts", "--right", alert_id, "--url", sqlite_collector.url]) == 0
    assert main(["reassess", "--save", str(tmp_path / "none" / "own.json"), "--url", sqlite_collector.url]) == 1
    assert "--save must name a file that can be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--right", "a", "--wrong", "b"], ["--failed-at", "3"], ["--wrong", "a", "--failed-at", "3"]],
)
def test_options_that_do_not_go_together_are_refused(options, capsys):
    """Each has one line, and no request is sent."""
    assert main(["alerts", *options]) == 1
    assert "--failed-at needs" in (line := capsys.readouterr().err) or "cannot be given together" in line


def test_a_number_of_gpus_that_is_not_finite_is_refused(capsys):
    """The GPU-hours would be no number, which JSON cannot hold."""
    assert main(["reassess", "--gpus", "inf", "--json"]) == 1
    assert "--gpus must be above 0 and finite, got inf" in capsys.readouterr().err
