"""The code that runs in Ray's processes, each of which imports this module."""

import os
import sys
import time
from pathlib import Path

import ray

import trainer_hooks


@ray.remote(num_cpus=1)
class Rank:
    """One rank of a training, which streams its own shard."""

    def __init__(self, rank, world_size):
        self.rank = rank
        self.monitor = trainer_hooks.connect(run="ray", rank=rank, world_size=world_size)

    def log(self, first, end):
        """Log steps, and give the process."""
        rollouts = {"logprobs": [[-1.0, -3.0], [-2.0, -2.0]], "mask": [[1, 1], [1, 1]], "rewards": [1.0, 0.0]}
        for step in range(first, end):
            self.monitor.log_step(step, {"x": float(step)}, rollouts=rollouts)
        return os.getpid()

    def wait_for_the_disk(self, records):
        """Wait until so many records are in the spool."""
        while self._count_records_on_disk() < records:
            time.sleep(0.01)

    def _count_records_on_disk(self):
        batches = Path(os.environ["RLVITALS_SPOOL_DIR"]).rglob(f"*-{self.rank:05d}-*/*.msgpack")
        return sum(int(batch.stem.rpartition("-")[2]) for batch in batches)

    def close(self):
        """Wait until all is answered for, and give the number of records that were lost."""
        assert self.monitor.flush(60)
        self.monitor.close()
        return self.monitor.drops.dropped_records


@ray.remote(num_cpus=0)
def adapters():
    """Return our adapters that a process of Ray has loaded before it received its task."""
    return sorted(name for name in sys.modules if name.startswith("trainer_hooks.callbacks."))


@ray.remote(num_cpus=0)
def log_by(monitor, step):
    """Log a step by a monitor that came with the task."""
    monitor.log_step(step, {"x": 1.0})
    return type(monitor).__name__
