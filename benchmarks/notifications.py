"""The delay of a notification, and the messages of a storm of alerts: ``python -m benchmarks.notifications``.

A real collector on SQLite and on PostgreSQL, with the default grouping, sends signed webhooks to a real HTTP receiver.
The delay of a notification is measured with all detectors: the step that opens the alert has a gradient norm of NaN.
For the storm the detectors are replaced by one that opens an alert at every other step, because no machine of two cores
runs all detectors on so many runs that fail within a minute.
"""

import argparse
import collections
import contextlib
import json
import math
import os
import platform
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import msgspec
import urllib3

from benchmarks.ingest import process, rate
from benchmarks.service.databases import databases
from monitor_server.app import create_app, create_server
from monitor_server.detection.protocol import Acknowledgement, Assessment, Finding, Observation, Phase, Severity
from monitor_server.http_server.server import bind
from monitor_server.settings import Settings
from trainer_hooks import wire

__all__ = ["main"]

CHANNELS = 30  # each has its own first alert, because later alerts of a channel are gathered for a minute
STORM_CHANNEL = "storm"
STORM_SECONDS = 60.0
STORM_RUNS = 50
ALERTS_A_BATCH = 10
SENDERS = 4
BUSY_BATCHES = 20.0  # a second, of 10 steps with 60 scalars, beside the alerts that are measured
DRAIN_SECONDS = 1_800.0


@dataclass
class _Receiver:
    """The messages of an HTTP receiver: the time of arrival and the body of each."""

    url: str = ""
    received: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def messages(self, channel: str) -> list[tuple[float, dict[str, Any]]]:
        """Return the messages of a channel, each once, in the order of their arrival."""
        found = {body["id"]: (at, body) for at, body in reversed(self.received) if body["channel"] == channel}
        return sorted(found.values(), key=lambda message: message[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of each database that this machine has."""
    parser = argparse.ArgumentParser(prog="benchmarks.notifications", description=__doc__)
    parser.add_argument("--alerts", type=int, default=10_000, help="alerts of the storm, over a minute")
    parser.add_argument("--only", choices=("SQLite", "PostgreSQL"), help="measure only this database")
    parser.add_argument("--serve", nargs=2, metavar=("PORT", "DATABASE"), help="run the collector of the storm")
    given = parser.parse_args(arguments)
    if given.serve:
        return _serve(int(given.serve[0]), given.serve[1])
    print("| database | what | measured |")
    print("|---|---|---|")
    with databases() as kinds:
        for kind, create in kinds.items():
            if given.only not in (None, kind):
                continue
            with _collector(["monitor_server", "serve", "--port", "{port}", "--database", create()]) as (url, receiver):
                for what in ("quiet", "busy"):
                    print(f"| {kind} | {_latencies(url, receiver, what)} |", flush=True)
            with _collector(["benchmarks.notifications", "--serve", "{port}", create()]) as (url, receiver):
                for row in _storm(url, receiver, given.alerts):
                    print(f"| {kind} | {row} |", flush=True)
    print(f"\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.")
    return 0


@contextlib.contextmanager
def _collector(arguments: Sequence[str]) -> Iterator[tuple[str, _Receiver]]:
    """Run a collector that notifies a receiver until the block ends; ``{port}`` in its arguments is a free port."""
    with tempfile.TemporaryDirectory() as folder, _receiving() as receiver, socket.socket() as probe:
        projects = [f"{what}-{place}" for what in ("quiet", "busy") for place in range(CHANNELS // 2)]
        parts = ["version = 1"]
        for name in (*projects, STORM_CHANNEL):
            secret = "a secret of the benchmark"  # noqa: S105 - the signed messages stay on this machine
            parts.append(f'[channels.{name}]\ntype = "webhook"\nurl = "{receiver.url}"\nsecret = "{secret}"')
        parts += [f'[[routes]]\nprojects = ["{name}"]\nchannels = ["{name}"]' for name in (*projects, STORM_CHANNEL)]
        path = Path(folder) / "notifications.toml"
        path.write_text("\n".join(parts), encoding="utf-8")
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        serve = [sys.executable, "-m", *(argument.format(port=port) for argument in arguments)]
        with process(["env", f"RLVITALS_NOTIFICATIONS={path}", *serve], port) as url:
            yield url, receiver


@contextlib.contextmanager
def _receiving() -> Iterator[_Receiver]:
    receiver = _Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.monotonic()
            receiver.received.append((at, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _latencies(url: str, receiver: _Receiver, what: str) -> str:
    """Measure the first alert of each of some channels, one after the other."""
    taken = []
    beside = "nothing else is sent"
    with ThreadPoolExecutor(1) as threads, urllib3.PoolManager(retries=False) as pool:
        if what == "busy":
            beside = f"{BUSY_BATCHES * 10:.0f} steps of 60 signals a second are sent beside it"
            load = threads.submit(rate, url, 2, 2.0 * CHANNELS // 2, label="load", batches_a_second=BUSY_BATCHES)
        for place in range(CHANNELS // 2):
            channel = f"{what}-{place}"
            _send(pool, url, project=channel, run="run", norms=[1.0])
            begun = time.monotonic()
            _send(pool, url, project=channel, run="run", norms=[float("nan")], first=1)
            _wait(lambda channel=channel: receiver.messages(channel), f"the message of {channel}")
            taken.append(receiver.messages(channel)[0][0] - begun)
        if what == "busy":
            load.result()
    taken.sort()
    return (
        f"from the sending of the step to the receiver, {len(taken)} times, while {beside} | "
        f"median {taken[len(taken) // 2]:.2f} s, longest {taken[-1]:.2f} s"
    )


def _storm(url: str, receiver: _Receiver, alerts: int) -> list[str]:
    """Let runs open this many critical alerts within a minute, and check that each was received."""
    begun = time.monotonic()
    batches = alerts // ALERTS_A_BATCH

    def send(sender: int) -> None:
        with urllib3.PoolManager(retries=False) as pool:
            for place in range(sender, batches, SENDERS):
                time.sleep(max(0.0, begun + STORM_SECONDS * place / batches - time.monotonic()))
                first = place // STORM_RUNS * 2 * ALERTS_A_BATCH
                norms = [float("nan"), 1.0] * ALERTS_A_BATCH
                _send(pool, url, project=STORM_CHANNEL, run=f"run {place % STORM_RUNS}", norms=norms, first=first)

    with ThreadPoolExecutor(SENDERS) as pool:
        for done in [pool.submit(send, sender) for sender in range(SENDERS)]:
            done.result()
    sent_in = time.monotonic() - begun

    def notified(change: str) -> int:
        return sum(body["counts"]["changes"].get(change, 0) for _, body in receiver.messages(STORM_CHANNEL))

    _wait(lambda: notified("opened") >= alerts and notified("resolved") >= alerts, "the messages of the storm")
    messages = receiver.messages(STORM_CHANNEL)
    sizes = ", ".join(f"{body['counts']['alerts']:,}" for _, body in messages)
    opened, stored = _alerts(url), collections.Counter(body["id"] for _, body in receiver.received)
    repeated = sum(stored[body["id"]] - 1 for _, body in messages)
    longest = max(len(json.dumps(body)) for _, body in messages)
    first, last = messages[0][0] - begun, messages[-1][0] - begun - sent_in
    return [
        f"{alerts:,} alerts of {STORM_RUNS} runs, sent in {sent_in:.0f} s: first message | {first:.2f} s after a step",
        f"the same: messages | {len(messages)}, about {sizes} alerts; the largest has {longest / 1024:.0f} KiB",
        f"the same: last message | {last:.0f} s after the last step",
        f"the same: opened, notified of, lost | {opened:,}, {notified('opened'):,}, {opened - notified('opened'):,}",
        f"the same: resolved, notified of; messages repeated | {notified('resolved'):,}; {repeated}",
    ]


def _alerts(url: str) -> int:
    """Count the alerts of the storm's project by the API."""
    count: int = 0
    cursor: str | None = None
    while True:
        fields = {"limit": "1000"} | ({"cursor": cursor} if cursor else {})
        page = urllib3.request("GET", f"{url}/api/v1/alerts", fields=fields, retries=False).json()
        count += len([alert for alert in page["items"] if alert["project"] == STORM_CHANNEL])
        cursor = page["next"]
        if not cursor:
            return count


def _send(
    pool: urllib3.PoolManager, url: str, *, project: str, run: str, norms: Sequence[float], first: int = 0
) -> None:
    records = [
        msgspec.Raw(wire.encode(wire.Record(step=first + place, time=time.time(), scalars={"grad/norm": norm})))
        for place, norm in enumerate(norms)
    ]
    batch = wire.Batch(schema_version=wire.SCHEMA_VERSION, project=project, run=run, records=records)
    answer = pool.request(
        "POST", f"{url}/api/v1/ingest", body=wire.encode(batch), headers={"Content-Type": wire.MSGPACK}
    )
    if answer.status != 200:  # noqa: PLR2004 - success
        raise RuntimeError(answer.data.decode())


class _EveryOtherStep:
    """A detector that finds a NaN in the gradient norm, and holds the finding for that step alone."""

    def update(self, observation: Observation) -> Assessment:
        """Return the finding of a step, if it has one."""
        findings = []
        if math.isnan(observation.signals.get("grad/norm", 0.0)):
            evidence = {"signal": "grad/norm", "statistic": 1.0, "threshold": 0.0}
            finding = Finding(
                kind="non_finite", severity=Severity.CRITICAL, step=observation.step, score=1.0, threshold=0.0,
                summary="grad/norm is not finite.", evidence=evidence,
            )  # fmt: skip
            findings.append(finding)
        return Assessment(step=observation.step, phase=Phase.HEALTHY, findings=findings)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Do nothing."""

    def state(self) -> dict[str, Any]:
        """Return nothing: no step depends on another."""
        return {}

    @classmethod
    def from_state(cls, _: Mapping[str, Any]) -> Self:
        """Continue."""
        return cls()


def _serve(port: int, database_url: str) -> int:
    with bind("127.0.0.1", port) as listening:
        app = create_app(Settings(port=port, database_url=database_url, dashboard=""), engine=_EveryOtherStep)
        create_server(app, log_level="error").run(sockets=[listening])
    return 0


def _wait(is_there: Any, what: str) -> None:  # noqa: ANN401 - any question
    deadline = time.monotonic() + DRAIN_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not arrive within {DRAIN_SECONDS:.0f} s")
        time.sleep(0.01)


if __name__ == "__main__":
    raise SystemExit(main())
