"""The overhead benchmark: our own rows are real turns here; the other tools have an environment of their own."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

import trainer_hooks
from benchmarks.overhead.command import PEERS
from benchmarks.overhead.core import one_core
from benchmarks.overhead.loggers import LOGGERS, OURS
from benchmarks.overhead.meter import Meter, delivery_seconds
from benchmarks.overhead.race import Result, take_turn
from benchmarks.overhead.report import logger_table, share_table
from benchmarks.overhead.trainers import Share
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.shared.error_guard import Guard


@pytest.mark.parametrize(
    ("tool", "between"), [(OURS, "python"), (OURS, "waiting"), (OURS, "torch"), ("rlvitals, to a collector", "python")]
)
def test_a_turn_of_ours_is_measured(tool, between):
    """Each step was held, cost processor time, and left bytes on disk or sent them."""
    found = take_turn(Path(sys.executable), tool, has_arrays=True, steps=5, between=between)
    assert len(found.held) == 5
    assert min(found.held) > 0
    assert found.cpu_seconds > 0
    assert found.step_bytes > 500


@pytest.mark.skipif(not PEERS.exists(), reason="needs the other tools; make bench-overhead installs them")
@pytest.mark.parametrize("tool", ["tensorboard", "trackio"])
def test_a_turn_of_another_tool_is_measured(tool):
    """A quick look at two of them, offline."""
    found = take_turn(PEERS.absolute(), tool, has_arrays=True, steps=3)
    assert len(found.held) == 3
    assert found.step_bytes > 0


def test_a_tool_that_fails_is_named(monkeypatch):
    """The error message contains the text that the tool wrote to standard error."""
    monkeypatch.setitem(LOGGERS, "nothing", None)
    with pytest.raises(RuntimeError, match="nothing ended with 1"):
        take_turn(Path(sys.executable), "nothing", has_arrays=False, steps=1)


def test_the_table_gives_ratios_and_whether_budgets_are_kept():
    """10 µs are 0.05 of 200 µs of trackio, and 0.01 of 1,000 µs of wandb; 300 µs are 0.3 of its tail of 1 ms."""
    results = {name: Result(p50=1e-3, p99=1e-3, cpu_seconds=2e-3, step_bytes=5000) for name in LOGGERS}
    results["trackio"] = Result(p50=2e-4, p99=1e-3, cpu_seconds=1e-3, step_bytes=100)
    results[OURS] = Result(p50=1e-5, p99=3e-4, cpu_seconds=1e-4, step_bytes=500)
    table = logger_table(results, has_arrays=False)
    assert f"| {OURS} | 10 µs | 0.010 | 300 µs | 0.300 | 0.10 ms | 0.05 | 500 |" in table
    assert "p50 × trackio 0.050 of 0.1 ✓; p50 × wandb 0.010 of 0.02 ✓; p99 × wandb 0.300 of 0.1 ✗" in table


def test_a_training_has_one_core_with_all_its_threads():
    """Existing threads and new ones use one core; afterwards they may use the same cores as before."""
    allowed = os.sched_getaffinity(0)
    seen = []
    end = threading.Event()
    earlier = threading.Thread(target=lambda: (end.wait(), seen.append(os.sched_getaffinity(0))))
    earlier.start()
    with one_core():
        later = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        later.start()
        later.join()
        end.set()
        earlier.join()
        seen.append(os.sched_getaffinity(0))
    assert seen == [{min(allowed)}] * 3
    assert os.sched_getaffinity(0) == allowed


def test_shares_are_printed_with_their_standard_error():
    """0.4 % and 0.3 % are 0.7 % of a step; rounds of +1 % and +3 % are +2 % with a standard error of √2 / √2 = 1 %.

    The training's own thread took 0.07 s of 10 s more, of which 0.04 s were ours: 0.3 % of a step.
    """
    share = Share(
        step_seconds=0.1,
        held_share=0.004,
        thread_share=0.003,
        with_us=[10.1, 10.3],
        without=[10.0, 10.0],
        own_with_us=[9.97, 9.97],
        own_without=[9.9, 9.9],
    )
    assert "| TRL | 2 | 100 ms | 0.40% | 0.30% | 0.70% ✓ | +0.3% | +2.0% ± 1.0% |" in share_table({"TRL": share})


def test_the_meter_counts_our_code_once_and_nothing_else(monkeypatch):
    """A guard within a guard is counted with the outer one; what training does in between is not."""
    clock = iter([1.0, 3.0, 10.0, 11.0])
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    meter = Meter()
    with meter.installed():
        with Guard(), Guard():
            pass
        _Silent().log_step(1)
    assert meter.seconds == 3.0


class _Silent(trainer_hooks.Monitor):
    """A monitor that ignores the values that are logged."""

    def __init__(self):
        self._is_silent = True


def test_our_threads_are_found_by_their_names(tmp_path, monkeypatch):
    """A thread that is alive has used some processor time."""
    monkeypatch.setenv("RLVITALS_SPOOL_DIR", str(tmp_path))
    with trainer_hooks.connect(run="r") as monitor:
        monitor.log_step(1, {"x": 1.0})
        assert monitor.flush(PATIENCE_SECONDS)
        assert delivery_seconds() > 0
