"""How many steps a second one collector stores durably: ``python -m benchmarks.ingest``.

A real `rlvitals serve` on SQLite (WAL, synchronous FULL), real requests of msgpack batches of 10 steps with 60 scalars
over kept connections, detection and all. Beside it, in the same run, the bare FastAPI ceiling: the same server process
shape with a route that only reads the body and decodes the batch.
"""

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import urllib3

from benchmarks.collectors import wait_until_served
from benchmarks.healthy_signals import healthy_steps
from trainer_hooks import wire

__all__ = ["CEILING", "STEPS_PER_BATCH", "main", "process", "rate"]

SIGNALS = 60
STEPS_PER_BATCH = 10
# A sender repeats the values of so many steps, because drawing new ones would cost more than sending them.
DRAWN_STEPS = 1_000

CEILING = """
import sys, uvicorn
from fastapi import FastAPI, Request, Response
from trainer_hooks import wire
app = FastAPI()
@app.get("/readyz")
def readyz() -> dict[str, str]: return {}
@app.post("/api/v1/ingest")
async def ingest(request: Request) -> Response:
    batch = wire.decode_batch(await request.body())
    return Response(wire.encode(wire.Receipt(run_id="r", accepted=len(batch.records))), media_type=wire.MSGPACK)
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--port", type=int, default=8790)
    given = parser.parse_args(arguments)
    print(f"batches of {STEPS_PER_BATCH} steps with {SIGNALS} scalars, {given.seconds:.0f} s each")
    print(f"{'':>22} {'senders':>8} {'batches/s':>10} {'steps/s':>9} {'of ceiling':>11}")
    with tempfile.TemporaryDirectory() as folder:
        serve = ["-m", "monitor_server", "serve", "--port", str(given.port)]
        database = ["--database", f"sqlite:///{Path(folder) / 'ingest.db'}"]
        for senders in (1, 8):
            with process([sys.executable, "-c", CEILING, str(given.port)], given.port) as url:
                ceiling = rate(url, senders, given.seconds, label="ceiling")
            with process([sys.executable, *serve, *database], given.port) as url:
                stored = rate(url, senders, given.seconds, label=f"collector-{senders}")
            for name, found in (("bare FastAPI, decodes", ceiling), ("collector, durable", stored)):
                steps = found * STEPS_PER_BATCH
                print(f"{name:>22} {senders:>8} {found:>10.0f} {steps:>9.0f} {found / ceiling:>11.2f}")
    return 0


@contextlib.contextmanager
def process(command: list[str], port: int) -> Iterator[str]:
    """Run a server until the block ends, and yield its address when it answers."""
    url = f"http://127.0.0.1:{port}"
    environment = os.environ | {"RLVITALS_DASHBOARD": "", "RLVITALS_LOG_LEVEL": "error"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own
        try:
            wait_until_served(f"{url}/readyz", lambda: process.poll() is None, seconds=300)
            yield url
        finally:
            process.terminate()


def rate(url: str, senders: int, seconds: float, *, label: str, batches_a_second: float | None = None) -> float:
    """Return the number of batches per second that some senders have acknowledged together.

    Args:
        url: The server.
        senders: How many threads send, each to a run of its own.
        seconds: The duration.
        label: The beginning of the runs' names.
        batches_a_second: The batches that they send together; without it they send as fast as they are acknowledged.

    Raises:
        RuntimeError: If the server refuses a batch.
    """
    drawn = _drawn_steps()  # before the clock starts: this takes a quarter of a second
    counts = [0] * senders
    end = time.monotonic() + seconds
    pause = None if batches_a_second is None else senders / batches_a_second
    with ThreadPoolExecutor(senders) as threads:
        sent = [
            threads.submit(_sender(url, drawn, counts, place, end, label=label, pause=pause))
            for place in range(senders)
        ]
    for each in sent:
        each.result()
    return sum(counts) / seconds


@functools.cache
def _drawn_steps() -> list[dict[str, float]]:
    return healthy_steps(SIGNALS, steps=DRAWN_STEPS)


def _sender(
    url: str,
    drawn: Sequence[dict[str, float]],
    counts: list[int],
    place: int,
    end: float,
    *,
    label: str,
    pause: float | None,
) -> Callable[[], None]:
    def send() -> None:
        begin = time.monotonic()
        with urllib3.PoolManager(retries=False) as pool:
            step = 0
            while time.monotonic() < end:
                records = [
                    msgspec.Raw(
                        wire.encode(wire.Record(step=number, time=time.time(), scalars=drawn[number % DRAWN_STEPS]))
                    )
                    for number in range(step, step + STEPS_PER_BATCH)
                ]
                batch = wire.Batch(schema_version=wire.SCHEMA_VERSION, run=f"{label}-{place}", records=records)
                answer = pool.request(
                    "POST", f"{url}/api/v1/ingest", body=wire.encode(batch), headers={"Content-Type": wire.MSGPACK}
                )
                if answer.status != 200:  # noqa: PLR2004 - success
                    raise RuntimeError(answer.data.decode())
                step += STEPS_PER_BATCH
                counts[place] += 1
                if pause is not None:
                    time.sleep(max(0.0, begin + pause * counts[place] - time.monotonic()))

    return send


if __name__ == "__main__":
    raise SystemExit(main())
