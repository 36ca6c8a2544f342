"""Judgements of alarms as right or wrong: over the API, on the command line, and in the replay of the judged runs."""

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
    assert found["current"]["pages"] >= 1
    assert main(["reassess", "--url", collector.url]) == 0
    assert "nights disturbed" in capsys.readouterr().out


def test_a_version_that_loses_a_right_page_is_refused_unless_it_is_accepted(collector, capsys, tmp_path):
    """A calibration that raises every threshold makes the own history worse, and the command says where."""
    _, alert_id = paged_run(collector, "worse")
    assert main(["alerts", "--right", alert_id, "--url", collector.url]) == 0
    file = tmp_path / "deaf.json"
    profile = {"warn": 1e9, "page": 1e9}
    profiles = {"large batch": profile, "small batch": profile}
    file.write_text(json.dumps({"id": "deaf", "detectors": DETECTOR_VERSION, "profiles": profiles}))
    options = ["reassess", "--calibration", str(file), "--url", collector.url]
    assert main(options) == 3
    output = capsys.readouterr()
    assert "/worse: no page, where there was a right one at step 30" in output.out
    assert "this version is worse in" in output.err
    assert main([*options, "--accept-worse"]) == 0


@pytest.mark.parametrize(
    "options",
    [["--right", "a", "--wrong", "b"], ["--failed-at", "3"], ["--wrong", "a", "--failed-at", "3"]],
)
def test_options_that_do_not_go_together_are_refused(options, capsys):
    """Each has one line, and no request is sent."""
    assert main(["alerts", *options]) == 1
    assert "--failed-at needs" in (line := capsys.readouterr().err) or "cannot be given together" in line
