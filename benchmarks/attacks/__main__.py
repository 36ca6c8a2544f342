"""The answer times of a healthy trainer while a client attacks the collector: ``python -m benchmarks.attacks``.

The collector is a real `rlvitals serve` on SQLite in another process. One healthy client sends a batch of one step with
60 scalars twenty times a second, over a connection that it keeps. The table has the median, the 99th percentile and the
largest of its answer times, first without and then with each attack, the 99th percentile as a multiple of the one
without, and the most memory that the collector has held by then. With several rounds, all attacks and no attack take
turns. If the client is refused, or an attack is refused that should get in, the benchmark ends with an error, because
refusals are quick.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import urllib3

from benchmarks.attacks.attack_kinds import ATTACKS, Attack
from benchmarks.attacks.batches import batch, record, send
from benchmarks.collectors import collector

__all__ = ["main"]

ALONE = "nothing"
INTERVAL_SECONDS = 0.05


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each attack lasts")
    parser.add_argument("--rounds", type=int, default=1, help="how often everything is measured")
    parser.add_argument("--only", help="part of the name of the attacks to run")
    given = parser.parse_args(arguments)
    chosen = [name for name in ATTACKS if not given.only or given.only in name]
    times: dict[str, list[float]] = {name: [] for name in (ALONE, *chosen)}
    peaks = dict.fromkeys(times, 0.0)
    for _ in range(given.rounds):
        for name in times:
            with tempfile.TemporaryDirectory() as folder, collector(Path(folder) / "attacked.db") as (url, process_id):
                times[name] += _healthy(url, ATTACKS.get(name, _nothing), given.seconds)
                peaks[name] = max(peaks[name], _peak_mebibytes(process_id))
    _print_table(times, peaks)
    return 0


def _print_table(times: Mapping[str, Sequence[float]], peaks: Mapping[str, float]) -> None:
    print(
        f"{'beside':<58} {'answers':>8} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'p99 / alone':>12} {'peak MiB':>9}"
    )
    alone = np.quantile(times[ALONE], 0.99)
    for name, seconds in times.items():
        p50, p99 = np.quantile(seconds, 0.5), np.quantile(seconds, 0.99)
        print(
            f"{name:<58} {len(seconds):>8} {1000 * p50:>7.0f} {1000 * p99:>7.0f} {1000 * max(seconds):>7.0f} "
            f"{p99 / alone:>12.2f} {peaks[name]:>9.0f}"
        )


def _healthy(url: str, attack: Attack, seconds: float) -> list[float]:
    """Send the healthy client's batches while the attack lasts, and return how long each answer took, in seconds."""
    times: list[float] = []
    ends = threading.Event()
    with ThreadPoolExecutor(1) as threads, urllib3.PoolManager(maxsize=1, timeout=60, retries=False) as pool:
        for step in range(20):
            send(pool, url, batch("healthy", [record(step)]))
        attacked = threads.submit(attack, url, ends)
        begin, step = time.monotonic(), 20
        try:
            while time.monotonic() - begin < seconds and not attacked.done():
                sent = time.perf_counter()
                send(pool, url, batch("healthy", [record(step)]))
                times.append(time.perf_counter() - sent)
                step += 1
                time.sleep(max(0.0, INTERVAL_SECONDS - times[-1]))
        finally:
            ends.set()
        attacked.result()
    return times


def _nothing(url: str, ends: threading.Event) -> None:
    """Attack nothing."""
    del url
    ends.wait()


def _peak_mebibytes(process_id: int) -> float:
    """Return the most memory that a process has held."""
    status = Path(f"/proc/{process_id}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
