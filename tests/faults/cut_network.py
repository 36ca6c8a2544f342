"""A trainer and a collector alone in a network namespace, whose only wire is cut. Arguments: a folder, a pace.

At a pace of 1 the cut takes a minute and the trainer's times are its own; at 15 it takes four seconds, and the trainer
backs off for 0.2 s at most.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.faults.collector import start
from tests.faults.stored_records import stored_records
from tests.faults.trainer_process import Trainer
from tests.patience import eventually

CUT_SECONDS = 60
PORT = 8600  # the network of the test has no other process
STEPS = 100


def wire(state: str) -> None:
    """Connect or cut the network."""
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def main(folder: Path, pace: int) -> None:
    """Log a hundred steps before, during and after the cut."""

    def stored() -> list[int]:
        return [step for _, _, step in stored_records(folder / "rlvitals.db")]

    wire("up")
    with start(folder / "rlvitals.db", PORT, is_warm=False) as collector:
        trainer = Trainer(f"http://127.0.0.1:{PORT}", folder / "spool", first=0, prefix=(), PACE=str(pace))
        trainer.grant(STEPS)
        eventually(lambda: len(stored()) == STEPS)
        wire("down")
        trainer.grant(STEPS)
        trainer.logged(2 * STEPS)  # it goes on meanwhile
        time.sleep(CUT_SECONDS / pace)
        assert len(stored()) == STEPS
        wire("up")
        trainer.grant(STEPS)
        assert trainer.end() == 0
        assert stored() == list(range(3 * STEPS))
        collector.kill()
    assert not list((folder / "spool").rglob("*.msgpack"))


if __name__ == "__main__":
    os.environ.pop("http_proxy", None)
    main(Path(sys.argv[1]), int(sys.argv[2]))
