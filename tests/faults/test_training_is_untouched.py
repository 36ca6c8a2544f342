import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import trainer_hooks
from tests.bad_collectors import BAD_COLLECTORS, SLOW_SECONDS, nobody_listens, slow
from tests.faults.trainings import TRAININGS, be_brief
from tests.ranks import launch

WORKER = Path(__file__).with_name("ddp_trainings.py")


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    torch.set_num_threads(1)
    be_brief(monkeypatch.setitem)


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory):
    """Return the final state of a training without our hooks."""
    ends = {}

    def end_of(name):
        if name not in ends:
            ends[name] = TRAININGS[name](tmp_path_factory.mktemp(name), is_watched=False)
        return ends[name]

    return end_of


@pytest.fixture
def own_errors(caplog):
    """Fail where an error of ours was swallowed."""
    yield
    assert not [record for record in caplog.get_records("call") if "internal_errors" in record.getMessage()]


@pytest.mark.usefixtures("own_errors")
@pytest.mark.parametrize("failure", [*BAD_COLLECTORS, "no folder"])
@pytest.mark.parametrize("name", TRAININGS)
def test_weights_and_generators_are_the_same_to_the_bit_whatever_fails(name, failure, unwatched, tmp_path, monkeypatch):
    """A watched training ends where an unwatched one does, with any collector, and with a spool that takes nothing."""
    spool = tmp_path / "spool"
    if failure == "no folder":
        spool.write_text("a file in the way: no folder can be made here")
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(spool))
    with BAD_COLLECTORS.get(failure, nobody_listens)() as url:
        monkeypatch.setenv("RLVITALS_URL", url)
        assert TRAININGS[name](tmp_path / "run", is_watched=True) == unwatched(name)


def _can_mount():
    return shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not _can_mount(), reason="a file system of our own needs user namespaces")
def test_two_processes_end_with_the_same_weights_whatever_fails(tmp_path):
    """Each training, data-parallel on two ranks, with each bad collector, and with a spool on a disk that is full."""
    (tmp_path / "disk").mkdir()
    launch(WORKER, str(tmp_path))


@pytest.mark.slow
def test_a_collector_that_takes_ten_seconds_for_an_answer_is_waited_for_and_heard(tmp_path, monkeypatch):
    """Steps return meanwhile; the answer comes, and is not asked for twice."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
    with slow() as url:
        monitor = trainer_hooks.connect(url, run="r")
        for step in range(50):
            monitor.log_step(step, {"x": 1.0})
        assert monitor.phase == "unknown"
        assert monitor.flush(6 * SLOW_SECONDS)
        assert monitor.phase == "healthy"
        monitor.close()
    assert monitor.drops.dropped_records == 0
