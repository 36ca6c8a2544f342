import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_hooks
from tests.faults.collector import start
from tests.faults.stored_records import stored_records
from trainer_hooks.callbacks import bootstrap

pytest.importorskip("ray", reason="Ray has an environment of its own: make test-trainers")

import ray
from ray_ranks import Rank, adapters, log_by  # by this name Ray's processes find it, too

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(ray.__version__ == "99.0", reason="Ray is stubbed here")


@pytest.fixture
def cluster(tmp_path, unused_port, monkeypatch):
    """A function that starts Ray on this machine; its processes inherit the environment, as on a node."""
    monkeypatch.setenv("PYTHONPATH", f"{HERE.parents[1]}{os.pathsep}{HERE}")
    monkeypatch.setenv("RLVITALS_URL", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setenv("RLVITALS_ATTEMPT", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

    def cluster(**options):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, **options)

    yield cluster
    ray.shutdown()


@pytest.fixture
def collector(tmp_path, unused_port):
    """A function that starts the collector, which is killed after the test."""
    with contextlib.ExitStack() as stack:

        def collector():
            process = stack.enter_context(start(tmp_path / "rlvitals.db", unused_port))
            stack.callback(process.kill)

        yield collector


@pytest.fixture
def stored(tmp_path):
    """A function that returns the records in the collector's database: (attempt, rank, step) of each."""
    return lambda: sorted(stored_records(tmp_path / "rlvitals.db"))


def test_a_killed_actors_records_are_sent_by_its_successor_and_each_is_there_once(cluster, collector, stored):
    """Two ranks in actors; the collector is away, one rank is killed, and both are there again."""
    cluster()
    ranks = [Rank.remote(rank, 2) for rank in range(2)]
    _, victim = ray.get([rank.log.remote(0, 50) for rank in ranks])
    ray.get([rank.wait_for_the_disk.remote(50) for rank in ranks])
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(ranks[1].log.remote(50, 60))
    collector()
    later = Rank.options(runtime_env={"env_vars": {"RLVITALS_ATTEMPT": "2"}}).remote(1, 2)
    ray.get([ranks[0].log.remote(50, 60), later.log.remote(50, 60)])
    assert ray.get([ranks[0].close.remote(), later.close.remote()]) == [0, 0]
    first = [(1, 0, step) for step in range(60)] + [(1, 1, step) for step in range(50)]
    assert stored() == first + [(2, 1, step) for step in range(50, 60)]


def test_what_ray_ends_unheard_is_sent_later(cluster, collector, stored, tmp_path, unused_port):
    """Ray's shutdown runs no exit code of an actor; `trainer_hooks.sync` sends the records on disk."""
    cluster()
    ranks = [Rank.remote(rank, 2) for rank in range(2)]
    ray.get([rank.log.remote(0, 50) for rank in ranks])
    ray.get([rank.wait_for_the_disk.remote(50) for rank in ranks])
    ray.shutdown()
    collector()
    sync = [sys.executable, "-m", "trainer_hooks.sync", str(tmp_path / "spool")]
    subprocess.run([*sync, "--url", f"http://127.0.0.1:{unused_port}"], check=True)
    assert stored() == [(1, rank, step) for rank in range(2) for step in range(50)]


def test_a_drivers_monitor_sends_for_all_and_is_silent_where_ray_takes_it(cluster, collector, stored):
    """As in verl and SkyRL, one process sends; a task that receives its monitor does not send a second time."""
    collector()
    cluster()
    with trainer_hooks.connect(run="ray", rank=0, world_size=1) as monitor:
        monitor.log_step(1, {"x": 1.0})
        assert ray.get(log_by.remote(monitor, 2)) == "NullMonitor"
        monitor.log_step(3, {"x": 1.0})
    assert stored() == [(1, 0, 1), (1, 0, 3)]


@pytest.fixture
def line():
    """The line in this environment's site-packages that loads adapters; taken out again."""
    bootstrap.main(["install"])
    yield
    bootstrap.main(["remove"])


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("way", ["inherited", "of the job"])
def test_an_adapter_is_loaded_in_rays_processes(way, cluster, monkeypatch):
    """The variables may be there when Ray starts, or come with the job's runtime environment."""
    variables = {"RLVITALS_HOOKS": "openrlhf,verl"}
    if way == "inherited":
        monkeypatch.setenv("RLVITALS_HOOKS", variables["RLVITALS_HOOKS"])
        cluster()
    else:
        cluster(runtime_env={"env_vars": variables})
    assert {"trainer_hooks.callbacks.openrlhf", "trainer_hooks.callbacks.verl"} <= set(ray.get(adapters.remote()))
