"""``python -m benchmarks.spool``: the cost of writing records to disk, in all threads and in the training thread.

A trainer logs a step of 60 scalars every 10 ms, which is far faster than any real trainer, to a collector that answers
at once. With the spool every batch is written, read and removed. Read the difference between the rows.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.log_step import Answering
from trainer_hooks import Monitor
from trainer_hooks.delivery import DropCounter, SendingQueue, Spool
from trainer_hooks.settings import ConnectionSettings

STEPS = 500
STEP_SECONDS = 0.01
BATCHES = 2000
BATCH_BYTES = (500, 5_000, 100_000)


def measure_training(spool_dir: Path | None) -> tuple[float, float]:
    """Measure processor milliseconds of all threads, and milliseconds for which training was blocked, both per step."""
    monitor = Monitor(ConnectionSettings(url="", project="p", run="r", attempt=1, spool_dir=spool_dir), Answering())
    scalars = {f"group/metric{index}": index / 7 for index in range(60)}
    monitor.start()
    held = []
    began = time.process_time()
    for step in range(STEPS):
        started = time.perf_counter()
        monitor.log_step(step, scalars)
        held.append(time.perf_counter() - started)
        time.sleep(STEP_SECONDS)
    monitor.close()
    return (time.process_time() - began) / STEPS * 1e3, statistics.median(held) * 1e3


def measure_batches(folder: Path, nbytes: int) -> tuple[float, float]:
    """Measure the median microseconds to write a batch of this size, and to read and remove it."""
    queue = SendingQueue(DropCounter(), spool=Spool(folder, name="1", capacity_bytes=1 << 30))
    writing, reading = [], []
    for _ in range(BATCHES):
        started = time.perf_counter()
        queue.append(bytes(nbytes), 1)
        written = time.perf_counter()
        waiting = queue.peek()
        if waiting is not None:
            waiting.read()
            queue.remove(waiting)
        writing.append(written - started)
        reading.append(time.perf_counter() - written)
    queue.close()
    return statistics.median(writing) * 1e6, statistics.median(reading) * 1e6


def main() -> int:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'60 scalars a step':24} {'CPU ms/step, all threads':>26} {'training blocked, ms':>18}")
        for title, spool_dir in (("in memory", None), ("on disk", folder / "spool")):
            cpu, held = measure_training(spool_dir)
            print(f"{title:24} {cpu:26.3f} {held:18.3f}")
        print(f"\n{'a batch of':24} {'written, µs':>26} {'read, removed, µs':>18}")
        for nbytes in BATCH_BYTES:
            written, read = measure_batches(folder / "run", nbytes)
            print(f"{nbytes:18} bytes {written:26.0f} {read:18.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
