"""The ledger of a run's budget of false pages, over the API and on the command line."""

import json

import pytest

from monitor_server.commands.main import main
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.settings import Settings
from tests.live import eventually, serving


def exploding(steps, *, at):
    """Return records of a run whose loss becomes huge at one step and stays so."""
    return [
        {"step": step, "scalars": {"reward/mean": 0.5, "loss/policy": 0.01 if step < at else 2e5}}
        for step in range(steps)
    ]


@pytest.fixture
def budgeted(tmp_path, database_url):
    """Return a function that serves a collector under a budget and gives the ledger of an exploding run."""

    def serve(**warranty):
        file = tmp_path / "own.json"
        file.write_text(json.dumps({"id": "own", "detectors": DETECTOR_VERSION, "profiles": {}, "warranty": warranty}))
        return serving(Settings(database_url=database_url, dashboard="", calibration=file))

    return serve


def ledger_after(live, run_id, step):
    """Return the ledger once detection has processed a step."""
    eventually(lambda: (live.get(f"/runs/{run_id}/warranty") or {}).get("steps") == step + 1)
    return live.get(f"/runs/{run_id}/warranty")


def test_a_page_that_healthy_runs_pay_for_is_in_the_ledger(budgeted, capsys):
    """One page is opened of the two that 2,000 healthy steps without a page allow; the command prints the same."""
    with budgeted(steps_per_page=1000.0, runs=20, steps=2000, longest=100, weight=0.0) as live:
        run_id = live.run(run="loss", records=exploding(40, at=30))
        found = ledger_after(live, run_id, 39)
        assert (found["is_in_force"], found["pages_opened"], found["pages_allowed"]) == (True, 1, 2.0)
        assert found["promise"] == "one false page in 1,000 recorded steps, from 20 healthy runs with 2,000 steps"
        assert main(["warranty", run_id, "--url", live.url]) == 0
        assert "pages opened: 1\npages allowed so far: 2" in capsys.readouterr().out
        assert main(["warranty", "--url", live.url]) == 0
        sums = (
            "runs with a warranty: 1 of {}; their pages, right and false ones: 1; their recorded steps: 40, for which"
        )
        assert f"{sums.format(1)} the budget allows 0.04 false pages" in capsys.readouterr().out
        ledger_after(live, live.run(run="long", records=exploding(101, at=30)), 100)
        assert main(["warranty", "--url", live.url]) == 0
    printed = capsys.readouterr().out
    assert f"{sums.format(2)} the budget allows 0.04 false pages" in printed
    assert "runs that are too long, for which nothing is promised any more: 1" in printed


def test_a_page_that_cannot_be_paid_is_an_alert_of_severity_warning_with_its_reason(budgeted):
    """Loud healthy runs make the page too dear: the alert is a warning, and the ledger counts the steps."""
    with budgeted(steps_per_page=1000.0, runs=20, steps=1100, longest=100, weight=1e20) as live:
        run_id = live.run(run="loss", records=exploding(40, at=30))
        found = ledger_after(live, run_id, 39)
        assert (found["pages_opened"], found["steps_held_back"] > 0) == (0, True)
        alerts = live.get(f"/runs/{run_id}/alerts")["items"]
        (alert,) = [alert for alert in alerts if alert["kind"] == "loss_explosion"]
        assert alert["severity"] == "warning"


def test_without_a_budget_there_is_no_ledger(collector, capsys):
    """The answer is null, and the command says how to state one."""
    run_id = collector.run(run="plain", records=exploding(3, at=9))
    eventually(lambda: collector.get(f"/runs/{run_id}")["last_step"] == 2)
    assert collector.get(f"/runs/{run_id}/warranty") is None
    assert main(["warranty", run_id, "--url", collector.url]) == 0
    assert "no budget is stated" in capsys.readouterr().out
