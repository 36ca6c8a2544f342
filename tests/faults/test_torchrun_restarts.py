import os
import sys

import pytest

from tests import warm

RANK = """
import os, sys, time
from pathlib import Path
import trainer_hooks

restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
monitor = trainer_hooks.connect()
monitor._close_timeout_seconds = 60
for step in range(5 * restart, 5 * restart + 10):
    monitor.log_step(step, {"x": float(restart)})
assert monitor.flush(60)
here = Path(sys.argv[1]) / str(restart)
here.mkdir(exist_ok=True)
(here / os.environ["RANK"]).touch()
while len(list(here.iterdir())) < 2:  # torchrun ends all as soon as one has failed
    time.sleep(0.01)
sys.exit(1 - restart)
"""
# A wrapper as sites put around each rank; it starts at another time for each rank, and stays its parent.
AROUND = 'sleep 0.$LOCAL_RANK; sh -c \'"$@"; exit $?\' sh "$@"; exit $?'


@pytest.mark.parametrize("given", [None, 1_700_000_000_000])
def test_a_restart_by_torchrun_is_an_attempt_of_all_ranks_and_every_record_of_both_is_there(
    start_collector, stored, tmp_path, given
):
    """Two ranks fail after ten steps and go back five, with the attempt found and with it set once for the launch."""
    collector = start_collector()
    environ = {
        "RLVITALS_URL": collector.url,
        "RLVITALS_RUN": "r",
        "RLVITALS_SPOOL_DIR": str(tmp_path / "spool"),
        "OMP_NUM_THREADS": "1",
        **({"RLVITALS_ATTEMPT": str(given)} if given else {}),
    }
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = warm.run(
        [*torchrun, "--no-python", "sh", "-c", AROUND, "sh", sys.executable, "-c", RANK, str(tmp_path)],
        env=os.environ | environ,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    first, second = sorted({attempt for attempt, _, _ in stored()})
    assert second == first + 1000
    assert given in (None, first)
    each = ((first, range(10)), (second, range(5, 15)))
    assert stored() == [(attempt, rank, step) for attempt, steps in each for rank in range(2) for step in steps]
    (run,) = collector.get("/runs")["items"]
    assert (run["attempt"], run["last_step"], run["status"]) == (2, 14, "finished")
    (series,) = collector.get(f"/runs/{run['id']}/series", signals="x")["items"]
    assert series["values"] == [0.0] * 5 + [1.0] * 10
