import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import urllib3

import trainer_hooks
from tests.faults.collector import start
from tests.live import eventually
from tests.namespaces import can_have_own
from trainer_hooks import Monitor
from trainer_hooks.delivery import transport
from trainer_hooks.delivery.http import HttpTransport
from trainer_hooks.settings import ConnectionSettings

RUNS = 200


class Wire:
    """A cable between a trainer and a collector: forwards bytes until it is cut, and then swallows them in silence.

    A connection that has lost bytes loses all that follow, as TCP would: what arrives is a beginning, never an end.
    """

    def __init__(self, port):
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.whole = threading.Event()
        self.whole.set()
        self.swallowed = threading.Event()
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        is_cut = False
        try:
            while data := source.recv(65536):
                is_cut = is_cut or not self.whole.is_set()
                if is_cut:
                    self.swallowed.set()
                else:
                    sink.sendall(data)
        except OSError:
            pass  # closed by the test's end
        sink.close()

    def close(self):
        """Close all connections."""
        for end in self._sockets:
            end.close()


@pytest.fixture
def quick_retries(monkeypatch):
    """Shorten the delays between attempts, so that an outage of a minute takes seconds."""
    monkeypatch.setattr(transport, "LONGEST_DELAY_SECONDS", 0.1)


@pytest.mark.usefixtures("quick_retries")
def test_a_cut_network_costs_nothing_but_time(start_collector, stored, tmp_path):
    """Bytes vanish both ways for several of the trainer's time-outs; then everything is there, once, in order."""
    collector = start_collector()
    wire = Wire(int(collector.url.rpartition(":")[2]))
    settings = ConnectionSettings(url=wire.url, project="p", run="r", attempt=1, spool_dir=tmp_path / "spool")
    monitor = Monitor(settings, HttpTransport(wire.url, read_timeout_seconds=0.5))
    monitor.start()
    for step in range(300):
        if step == 100:
            assert monitor.flush(120)
            wire.whole.clear()
        if step == 200:
            for _ in range(3):
                wire.swallowed.clear()
                assert wire.swallowed.wait(120)
            assert len(stored()) == 100
            wire.whole.set()
        monitor.log_step(step, {"x": 1.0})
    assert monitor.flush(120)
    monitor.close()
    wire.close()
    assert [step for _, _, step in stored()] == list(range(300))
    assert monitor.drops.dropped_records == 0


@pytest.mark.skipif(not can_have_own("-rn"), reason="a network of our own needs user namespaces")
@pytest.mark.parametrize("pace", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_a_network_cut_for_a_minute_costs_nothing(pace, tmp_path):
    """The interface itself goes down under a trainer and a collector; then all is there once, in order.

    One case shortens the minute of the cut and the trainer's own times to a fifteenth; the other has their real length.
    """
    command = ["unshare", "-rn", sys.executable, "-m", "tests.faults.cut_network", str(tmp_path), str(pace)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], timeout=240)


@pytest.mark.skipif(not can_have_own("-rm"), reason="a file system of our own needs user namespaces")
def test_a_full_disk_costs_nothing_while_the_process_lives(start_trainer, stored, tmp_path, unused_port):
    """The spool's disk holds a few batches, and the collector is away: what does not fit waits in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    full = f'mount -t tmpfs -o size=16k tmpfs {disk} && exec "$@"'
    trainer = start_trainer(
        f"http://127.0.0.1:{unused_port}", spool=disk / "spool", prefix=("unshare", "-rm", "sh", "-c", full, "sh")
    )
    trainer.grant(1000)
    trainer.logged(1000)
    with start(tmp_path / "rlvitals.db", unused_port) as collector:
        assert trainer.end() == 0
        api = f"http://127.0.0.1:{unused_port}/api/v1/runs"
        (run,) = urllib3.request("GET", api).json()["items"]
        asked = urllib3.request("GET", f"{api}/{run['id']}/series", fields={"signals": "hooks/unspooled_records"})
        collector.kill()
    assert [step for _, _, step in stored()] == list(range(1000))
    assert asked.json()["items"][0]["values"][-1] > 0


def test_two_hundred_runs_of_one_process_arrive_each_for_itself(start_collector, stored, tmp_path, monkeypatch):
    """Every run has its own folder and threads; all records are there once, and nothing stays on disk."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path / "spool"))
    collector = start_collector()
    monitors = [trainer_hooks.connect(collector.url, run=f"run-{index}") for index in range(RUNS)]
    for step in range(5):
        for monitor in monitors:
            monitor.log_step(step, {"x": 1.0})
    assert all(monitor.flush(60) for monitor in monitors)
    for monitor in monitors:
        monitor.close()
    assert len(stored()) == RUNS * 5

    def ends():
        return [(run["last_step"], run["status"]) for run in collector.get("/runs", limit=RUNS)["items"]]

    eventually(lambda: ends() == [(4, "finished")] * RUNS)  # the projector reads behind
    assert sum(monitor.drops.dropped_records for monitor in monitors) == 0
    eventually(lambda: not list((tmp_path / "spool").iterdir()))
