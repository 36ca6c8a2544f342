"""The peers' process, spoken to as the benchmark speaks; skipped where their environment is not installed."""

import dataclasses
import sys
from pathlib import Path

import pytest

from benchmarks.detection.authored.suite import make_run
from benchmarks.detection.candidates import peers
from benchmarks.detection.candidates.peers import peer_traces
from benchmarks.detection.command import PEERS


@pytest.mark.skipif(not PEERS.exists(), reason="needs the peers; make bench-detection installs them")
def test_peers_give_one_mark_a_row():
    """Each tool answers for every row, and a page is a warning too."""
    run = make_run("displacement/fast", 0)
    found = peer_traces(PEERS, [run])
    assert len(found) == 3
    for traces in found.values():
        assert len(traces[0].steps) == len(run.observations)
        assert (traces[0].warn >= traces[0].page).all()


def test_a_peer_that_is_not_installed_is_named():
    """An interpreter without the tools ends; the error says at which run."""
    with pytest.raises(RuntimeError, match=r"benign/healthy/0"):
        peer_traces(Path(sys.executable), [make_run("benign/healthy", 0)])


def test_an_answer_belongs_to_the_worker_that_asked(tmp_path, monkeypatch):
    """Equal rows are asked again once the worker has changed, and answers are kept until then."""
    python, worker = tmp_path / "bin" / "python", tmp_path / "worker.py"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr(peers, "WORKER", worker)
    answer = "import json\nfor line in iter(input, ''): print(json.dumps(dict(marks=[[{}, 0]] * 2)), flush=True)\n"
    whole = make_run("benign/healthy", 0)
    run = dataclasses.replace(whole, observations=whole.observations[:2])
    for mark in (0, 1):
        worker.write_text(answer.format(mark))
        for _ in range(2):
            assert {found.warn.tolist()[0] for (found,) in peer_traces(python, [run]).values()} == {mark}
    assert len(list(tmp_path.glob("answers-*.json"))) == 2 * len(peers.PEERS)
