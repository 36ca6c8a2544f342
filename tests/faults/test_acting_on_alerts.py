"""A policy that carries out its actions, with a real collector: alerts on which it must not act."""

import contextlib

import pytest
import torch
import urllib3

import trainer_hooks
from tests.faults.collector import start
from tests.live import PATIENCE_SECONDS, eventually
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.torch_loop import LoopWatch


@pytest.fixture
def stop():
    """A policy that stops the training at a critical alert."""
    return lambda: ActionPolicy({"critical": "stop"}, dry_run=False)


@contextlib.contextmanager
def serving(database, port):
    """Run a collector that is killed at the end of the block."""
    with start(database, port) as collector:
        try:
            yield
        finally:
            collector.kill()


def firing(url):
    """Return the kinds of the firing alerts."""
    items = urllib3.request("GET", f"{url}/api/v1/alerts", fields={"state": "firing"}).json()["items"]
    return {alert["kind"] for alert in items}


def test_a_collector_that_was_away_stops_no_run(tmp_path, unused_port, monkeypatch, stop):
    """It takes a healthy trainer for lost when it is back, and nothing of that reaches the trainer."""
    monkeypatch.setenv("RLVITALS_STALL_MINIMUM_SECONDS", "0.1")
    monkeypatch.setenv("RLVITALS_STALL_FACTOR", "1.1")
    monkeypatch.setenv("RLVITALS_LOST_FACTOR", "1.1")
    url, database = f"http://127.0.0.1:{unused_port}", tmp_path / "rlvitals.db"
    policy, notified = stop(), []
    with serving(database, unused_port):
        monitor = trainer_hooks.connect(url, run="r", actions=policy, on_alert=notified.append)
        for step in range(3):
            monitor.log_step(step, {"reward/mean": 0.4})
        assert monitor.flush(PATIENCE_SECONDS)
        eventually(lambda: firing(url) == {"telemetry_stale", "trainer_lost"})
    with serving(database, unused_port):
        monitor.log_step(3, {"reward/mean": 0.4})
        assert monitor.flush(PATIENCE_SECONDS)
        monitor.close()
    assert (monitor.policy.take_due(), notified) == ([], [])


def test_a_run_that_was_stopped_goes_on_from_before_the_alert(collector, run_name, stop):
    """The first attempt's critical alert still fires when the second begins, which passes its step in good health."""

    def train(first_step, norms):
        policy = stop()
        monitor = trainer_hooks.connect(collector.url, run=run_name, actions=policy)
        assert monitor.flush(PATIENCE_SECONDS)
        weight = torch.nn.Parameter(torch.tensor(1.0))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        with LoopWatch(optimizer, monitor, first_step=first_step) as watch:
            for step, norm in enumerate(norms, first_step):
                watch.note({"grad/norm": norm})
                optimizer.step()
                if watch.decisions:
                    return step
                assert monitor.flush(PATIENCE_SECONDS)
        return None

    assert train(1, [1.0, 1.0, 1.0, float("nan"), 1.0, 1.0]) == 5
    assert train(4, [1.0] * 6) is None
