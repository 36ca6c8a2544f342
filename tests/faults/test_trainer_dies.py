import os
import signal
import subprocess
import sys
import time

import pytest

from tests.bad_collectors import nobody_answers, nobody_listens
from tests.live import eventually

STEPS = 600
PROMISED_SECONDS = 1.0


def spooled(spool):
    """Count the records in the spool."""
    return sum(int(path.stem.partition("-")[2]) for path in spool.rglob("*.msgpack"))


@pytest.mark.parametrize("absent", [nobody_listens, nobody_answers])
def test_what_a_killed_trainer_logged_a_second_earlier_reaches_the_store_at_its_next_start(
    start_collector, start_trainer, stored, tmp_path, absent
):
    """Kill -9 while no collector answers: the next start of the run sends those records first, and once."""
    with absent() as url:
        trainer = start_trainer(url, RLVITALS_ATTEMPT="1")
        trainer.grant(STEPS)
        logged = trainer.logged(STEPS)
        killed = time.time()
        trainer.kill()
    promised = [step for step, logged_at in logged if logged_at <= killed - PROMISED_SECONDS]
    assert len(promised) > 100
    collector = start_collector()
    again = start_trainer(collector.url, first=STEPS, RLVITALS_ATTEMPT="2")
    again.grant(1)
    assert again.end() == 0
    steps = [step for attempt, _, step in stored() if attempt == 1]
    assert steps == list(range(len(steps)))
    assert len(steps) >= len(promised)
    assert (2, 0, STEPS) in stored()
    (run,) = collector.get("/runs")["items"]
    assert (run["status"], run["last_step"]) == ("finished", STEPS)
    assert not list((tmp_path / "spool").rglob("*.msgpack"))


def test_a_trainer_that_never_comes_back_is_sent_by_hand(start_collector, start_trainer, stored, tmp_path):
    """`rlvitals sync` sends the records of a killed trainer once, with its configuration, and leaves no file."""
    with nobody_listens() as url:
        trainer = start_trainer(url)
        trainer.grant(50)
        trainer.logged(50)
        spool = tmp_path / "spool"
        eventually(lambda: spooled(spool) == 50)
        command = [sys.executable, "-m", "monitor_server", "sync", str(spool), "--url"]
        collector = start_collector()
        alive = subprocess.run([*command, collector.url], capture_output=True, text=True, check=True)
        assert alive.stdout == "0 records sent, 0 refused, 1 folders skipped because their process still runs\n"
        trainer.kill()
        away = subprocess.run([*command, url], capture_output=True, text=True, check=False)
        assert away.returncode == 1
        assert "cannot be reached" in away.stderr
        assert stored() == []
        sent = subprocess.run([*command, collector.url], capture_output=True, text=True, check=True)
    assert sent.stdout == "50 records sent, 0 refused, 0 folders skipped because their process still runs\n"
    assert [step for _, _, step in stored()] == list(range(50))
    (run,) = collector.get("/runs")["items"]
    assert collector.get(f"/runs/{run['id']}")["config"] == {"seed": 1}
    assert list(spool.iterdir()) == []


def test_an_offline_run_is_complete_when_it_is_sent_later(start_collector, start_trainer, stored, tmp_path):
    """Without an address everything is on disk, the end too, and nothing is counted as lost."""
    trainer = start_trainer("")
    trainer.grant(50)
    assert trainer.end() == 0
    collector = start_collector()
    command = [sys.executable, "-m", "trainer_hooks.sync", str(tmp_path / "spool"), "--url", collector.url]
    subprocess.run(command, capture_output=True, check=True)
    assert [step for _, _, step in stored()] == list(range(50))
    (run,) = collector.get("/runs")["items"]
    assert run["status"] == "finished"


def test_sigterm_costs_no_more_than_kill_nine(start_collector, start_trainer, stored):
    """No handler of ours blocks SIGTERM, and the next start sends the interrupted records."""
    with nobody_listens() as url:
        trainer = start_trainer(url, RLVITALS_ATTEMPT="1")
        trainer.grant(STEPS)
        logged = trainer.logged(STEPS)
        killed = time.time()
        trainer.process.terminate()
        assert trainer.process.wait(120) == -signal.SIGTERM
    collector = start_collector()
    again = start_trainer(collector.url, first=STEPS, RLVITALS_ATTEMPT="2")
    assert again.end() == 0
    assert len(stored()) >= sum(logged_at <= killed - PROMISED_SECONDS for _, logged_at in logged)


def test_a_forked_child_that_outlives_its_parent_keeps_nothing_from_the_next_start(start_collector, stored, tmp_path):
    """A data loader's worker hangs on after its trainer was killed; the trainer's folder can be claimed anyway."""
    script = """
import os, pathlib, signal, sys, time, trainer_hooks
monitor = trainer_hooks.connect()
for step in range(20): monitor.log_step(step, {"x": 1.0})
def on_disk():
    batches = pathlib.Path(os.environ["RLVITALS_SPOOL_DIR"]).rglob("*.msgpack")
    return sum(int(batch.stem.rpartition("-")[2]) for batch in batches)
while on_disk() < 20: time.sleep(0.01)
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""
    spool = tmp_path / "spool"
    with nobody_listens() as url:
        environ = os.environ | {"RLVITALS_URL": url, "RLVITALS_RUN": "r", "RLVITALS_SPOOL_DIR": str(spool)}
        command = [sys.executable, "-c", script]
        with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            child = int(parent.stdout.readline())
            parent.stdin.close()
            assert parent.wait(120) == -signal.SIGKILL
            try:
                collector = start_collector()
                command = [sys.executable, "-m", "trainer_hooks.sync", str(spool), "--url", collector.url]
                subprocess.run(command, capture_output=True, check=True)
                assert len(stored()) == 20
            finally:
                os.kill(child, signal.SIGKILL)


def test_every_rank_of_a_killed_launch_is_sent_by_the_next_launch(start_collector, start_trainer, stored, tmp_path):
    """Two ranks are killed before they have sent all, and start again in any order: every step is complete."""
    with nobody_listens() as url:
        ranks = [start_trainer(url, RANK=str(rank), WORLD_SIZE="2", RLVITALS_ATTEMPT="1") for rank in range(2)]
        for rank in ranks:
            rank.grant(100)
        for rank in ranks:
            rank.logged(100)
        eventually(lambda: spooled(tmp_path / "spool") == 200)
        for rank in ranks:
            rank.kill()
    collector = start_collector()
    again = [
        start_trainer(collector.url, first=100, RANK=str(rank), WORLD_SIZE="2", RLVITALS_ATTEMPT="2")
        for rank in range(2)
    ]
    for rank in again:
        rank.grant(10)
    assert [rank.end() for rank in again] == [0, 0]
    first, second = ((1, range(100)), (2, range(100, 110)))
    expected = [(attempt, rank, step) for attempt, steps in (first, second) for rank in range(2) for step in steps]
    assert stored() == expected
    (run,) = collector.get("/runs")["items"]
    items = collector.get(f"/runs/{run['id']}/steps", limit=200)["items"]
    assert [item["step"] for item in items] == list(range(110))
    assert (run["status"], run["last_step"]) == ("finished", 109)


def test_a_second_process_on_the_same_run_keeps_its_records_apart(start_collector, start_trainer, stored, tmp_path):
    """Two trainers live at once under one name: each is its own attempt, and every record is there once."""
    collector = start_collector()
    both = [start_trainer(collector.url, RLVITALS_ATTEMPT=attempt) for attempt in ("1", "2")]
    for trainer in both:
        trainer.grant(100)
    assert [trainer.end() for trainer in both] == [0, 0]
    assert stored() == [(attempt, 0, step) for attempt in (1, 2) for step in range(100)]
    assert not list((tmp_path / "spool").rglob("*.msgpack"))
