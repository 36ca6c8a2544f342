"""A run that the collector finds collapsing rolls back and continues with LLDS, as a second attempt."""

import os
import re

import pytest

from tests import warm

# The learning rate climbs so high that the run collapses.
DYING = [
    "--preset=tiny", "--questions-per-step=8", "--group-size=8", "--minibatches=4", "--train-questions=64",
    "--held-out=16", "--lr=1.2e-3", "--lr-warmup=60", "--steps=70", "--device=cpu",
    "--checkpoint-every=5", "--max-rollbacks=1",
]  # fmt: skip


@pytest.mark.slow
def test_a_dying_run_goes_back_to_health_and_on_with_llds(collector, tiny_cache, tmp_path, run_name):
    """The real engine pages; the trainer returns to a healthy checkpoint, with LLDS on and half the learning rate."""
    command = ["-m", "trainer_hooks.reference", *DYING, "--on-acceleration", "rollback+llds", "--rollback-lr", "0.5"]
    places = ["--url", collector.url, "--run", run_name, "--cache", str(tiny_cache), "--checkpoints", str(tmp_path)]
    ended = warm.run([*command, *places], env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=280)
    assert ended.returncode == 0, ended.stdout
    found = re.search(
        r"phase (\w+) at step (\d+): rolled back to step (\d+), λ = 0.1, learning rate × 0.5", ended.stdout
    )
    assert found, ended.stdout
    verdict, died_at, back_to = found[1], int(found[2]), int(found[3])
    assert verdict in {"acceleration", "collapsed"}
    assert 0 < back_to < died_at

    (run,) = (item for item in collector.get("/runs")["items"] if item["name"] == run_name)
    steps = collector.get(f"/runs/{run['id']}/steps", limit=200)["items"]
    attempts = {item["step"]: item["attempt"] for item in steps}
    assert run["attempt"] == 2
    assert {attempts[step] for step in range(1, back_to + 1)} == {1}
    assert {attempts[step] for step in range(back_to + 1, died_at + 1)} == {2}
    assert list(attempts) == list(range(1, len(attempts) + 1))
    lr = {item["step"]: item["signals"]["lr"] for item in steps}
    assert lr[back_to + 1] == pytest.approx(0.5 * (back_to + 1) / back_to * lr[back_to], rel=1e-5)
    kinds = {alert["kind"] for alert in collector.get(f"/runs/{run['id']}/alerts")["items"]}
    assert kinds & {"death_spiral", "run_collapsed"}
