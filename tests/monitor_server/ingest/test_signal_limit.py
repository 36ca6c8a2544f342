"""A training that makes up names of metrics for ever is watched all the same, from the SDK to the store."""

import json
import logging

import msgspec
import pytest

import trainer_hooks
from monitor_server.commands.main import main
from tests.live import PATIENCE_SECONDS, eventually
from trainer_hooks import wire
from trainer_hooks.sync import main as sync

MOST = 12


@pytest.fixture
def live(start_collector):
    """A collector whose runs may have few signals."""
    return start_collector(max_signals=MOST)


def _counted(live, metric):
    lines = live.pool.request("GET", f"{live.url}/metrics").data.decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{metric} ")))


def test_a_bad_number_is_found_in_a_run_with_too_many_names(live, run_name, caplog):
    """The name has the step in it. A reward that was there before is still stored, and lost names are counted."""
    alerts = []
    with (
        caplog.at_level(logging.WARNING, "trainer_hooks"),
        trainer_hooks.connect(live.url, run=run_name, on_alert=alerts.append) as monitor,
    ):
        for step in range(22):
            vital = {"loss/policy": float("nan") if step == 20 else 0.1} if step >= 20 else {}
            monitor.log_step(step, {"my/score": 0.5, f"my/score_at_{step}": 1.0} | vital)
            assert monitor.flush(PATIENCE_SECONDS)
        lost = monitor.drops["scalars"]
        assert monitor.drops.dropped_records == 0
    assert [(alert.kind, alert.opened_step) for alert in alerts] == [("non_finite", 20)]
    (run,) = live.get("/runs")["items"]
    assert run["last_step"] == 21
    detail = live.get(f"/runs/{run['id']}")
    assert len([name for name in detail["signals"] if name.startswith("my/")]) <= MOST
    assert (detail["left_out"]["signals"], detail["left_out"]["limit"]) == (1, MOST)
    assert detail["left_out"]["name"] == f"my/score_at_{detail['left_out']['from_step']}"
    assert {"my/score", "loss/policy", "hooks/rejected_scalars"} <= set(detail["signals"])
    (scores,) = live.get(f"/runs/{run['id']}/series", signals="my/score")["items"]
    assert scores["steps"] == list(range(22))
    assert lost >= 22 - MOST
    assert _counted(live, "rlvitals_ingest_left_out_signals_total") == lost
    assert _counted(live, "rlvitals_ingest_rejected_total") == 0
    (warning,) = [message for message in caplog.messages if "left out" in message]
    assert "give a signal one name for all steps" in warning
    assert "RLVITALS_MAX_SIGNALS" in warning


def test_a_large_batch_that_loses_names_is_answered_once(live, run_name):
    """Its parts are stored one by one, and their lost names are counted together."""
    records = [{"step": step, "scalars": {"a": 1.0, f"junk/{step}": 1.0}} for step in range(1_200)]
    receipt = live.send(run=run_name, records=records)
    assert (receipt["accepted"], "rejected" in receipt) == (1_200, False)
    assert receipt["left_out"]["signals"] == 1_200 - (MOST - 1)


def test_a_record_with_more_names_than_a_run_may_have_is_stored(live, run_name):
    """A model may send one name for each parameter: names of detectors are kept, in any place."""
    scalars = {f"grad/{number}": 1.0 for number in range(5_000)} | {"grad/norm": 0.5}
    receipt = live.send(run=run_name, records=[{"step": 0, "scalars": scalars}])
    assert (receipt["accepted"], receipt["left_out"]["signals"]) == (1, 5_000 - MOST)
    (step,) = live.get(f"/runs/{receipt['run_id']}/steps")["items"]
    assert step["signals"]["grad/norm"] == 0.5
    assert len(step["signals"]) == MOST + 1


def test_whatever_the_sdk_sends_of_names_is_read(live, run_name):
    """The record has the largest number of names, of the largest length, in characters of four bytes."""
    scalars = {f"{'😀' * 190}{number:010}": 0.5 for number in range(wire.MAX_RECORD_SIGNALS)}
    record = msgspec.Raw(wire.encode(wire.Record(step=0, scalars=scalars)))
    batch = wire.encode(wire.Batch(schema_version=1, run=run_name, records=[record]))
    receipt = wire.decode_receipt(live.post(batch, media_type=wire.MSGPACK).data)
    assert (receipt.accepted, receipt.left_out.signals) == (1, wire.MAX_RECORD_SIGNALS - MOST)


def test_sync_says_which_names_were_left_out(live, run_name, tmp_path, capsys, monkeypatch):
    """The records of a dead trainer count as sent, and the exit status is 0."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
    with trainer_hooks.connect("", run=run_name) as monitor:
        for step in range(30):
            monitor.log_step(step, {f"junk/{step}": 1.0})
    assert sync([str(tmp_path), "--url", live.url]) == 0
    printed = capsys.readouterr()
    assert "30 records sent, 0 refused" in printed.out
    assert "signals of these records left out" in printed.out
    assert printed.err.count("RLVITALS_MAX_SIGNALS") == 1


def test_replay_says_which_names_were_left_out(live, tmp_path, capsys):
    """A log whose names have the step in them is replayed with its reward."""
    rows = [{"step": step, "reward": 0.5, f"junk/{step}": 1.0} for step in range(40)]
    log = tmp_path / "old.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["replay", str(log), "--url", live.url]) == 0
    printed = capsys.readouterr().out
    assert f"{40 - MOST} numbers of 40 steps were left out" in printed
    assert "refused" not in printed
    (run,) = live.get("/runs")["items"]
    (rewards,) = eventually(lambda: live.get(f"/runs/{run['id']}/series", signals="reward/mean")["items"])
    assert rewards["steps"] == list(range(40))
