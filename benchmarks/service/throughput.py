"""Ingest beside the bare FastAPI route, the projector's steps per processor second, and its lag at half capacity."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median

import urllib3

from benchmarks.ingest import CEILING, STEPS_PER_BATCH, process, rate
from benchmarks.service.core import Core
from benchmarks.service.databases import NewDatabase
from benchmarks.service.processor_time import ProcessorTime, used

__all__ = ["collectors_table", "ingest_goals", "ingest_table", "lag_goal", "lag_table", "projector_table"]

PORT = 18_790
SENDERS = 8
# One collector has all roles in its process; the other has ingest alone, as `rlvitals serve --role ingest` runs beside
# a projector.
ROLES = {"all": "", "ingest": ", role ingest"}
BARE = "bare FastAPI route, decodes only"
RUNS = 8
PEER_TIMEOUT_SECONDS = 120
PEERS = ("trackio", "mlflow")
PEER_LABEL = " server, by its own client"
SHARE_GOAL = 0.5
LAG_GOAL_SECONDS = 1.0
PEER_GOAL = 10
# In this time modules are imported at their first use, and the collector detects its load; it does not count.
WARM_UP_SECONDS = 1.5
# With this number of runs a projector does not reach each run within the 3 s for which it owns the run.
SHARED_RUNS = 32
DRAIN_SECONDS = 600.0
# Steps a second of detection, assembly and the store together on this kind of machine before issue 13.
STEPS_BEFORE = (520, 620)


def collector_command(url: str, *, port: int = PORT, role: str = "all") -> list[str]:
    """Return the command of a collector on a database."""
    serve = [sys.executable, "-m", "monitor_server", "serve", "--port", str(port), "--role", role]
    return [*serve, "--database", url]


def ingest_table(kinds: dict[str, NewDatabase], *, seconds: float, rounds: int, peers: Path) -> str:
    """Return the table of acknowledged steps a second, by server, and the ratio to the bare route of its round."""
    found: dict[str, list[float]] = {BARE: []}
    ratios: dict[str, list[float]] = {}
    costs: dict[str, list[ProcessorTime]] = {}
    for number in range(rounds):
        ceiling, cost = _measured([sys.executable, "-c", CEILING, str(PORT)], seconds, label="bare")
        found[BARE].append(ceiling)
        costs.setdefault(BARE, []).append(cost)
        for (kind, create), (role, label) in product(kinds.items(), ROLES.items()):
            stored, cost = _measured(collector_command(create(), role=role), seconds, label=f"round-{number}")
            name = f"rlvitals, {kind}{label}"
            found.setdefault(name, []).append(stored)
            ratios.setdefault(name, []).append(stored / ceiling)
            costs.setdefault(name, []).append(cost)
        for peer in PEERS:
            found.setdefault(f"{peer}{PEER_LABEL}", []).extend(_peer(peers, peer, seconds))
    rows = [
        f"### Durable acknowledged ingest: batches of {STEPS_PER_BATCH} steps of 60 scalars, {SENDERS} senders",
        "",
        (
            "| server | steps a second, median | of the bare route in the same round | lowest to highest "
            "| CPU a batch: server | database | sender |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        if not each:
            rows.append(f"| {name} | not measured: it is not installed, or failed | | | | | |")
            continue
        of = ratios.get(name)
        share = "1" if name == BARE else "" if of is None else f"{median(of):.2f}"
        spread = "" if of is None else f"{min(of):.2f} to {max(of):.2f}"
        times = [f"{1e6 * median(side):,.0f} µs" for side in zip(*costs.get(name, ()), strict=True)] or ["", "", ""]
        rows.append(f"| {name} | {median(each):,.0f} | {share} | {spread} | {' | '.join(times)} |")
    return "\n".join([*rows, "", ingest_goals(found, ratios)])


def _measured(server: list[str], seconds: float, *, label: str) -> tuple[float, ProcessorTime]:
    """Return the steps a second that a server acknowledges, and the processor time that a batch costs."""
    with process(server, PORT) as url:
        rate(url, SENDERS, WARM_UP_SECONDS, label="warm-up")
        before = used(PORT)
        batches = rate(url, SENDERS, seconds, label=label)
        return batches * STEPS_PER_BATCH, used(PORT).each_since(before, batches * seconds)


def ingest_goals(found: Mapping[str, Sequence[float]], ratios: Mapping[str, Sequence[float]]) -> str:
    """Say which servers reach the goals of ingest, and by how much.

    Args:
        found: Steps a second in each round, by server.
        ratios: Share of the bare route in each round, by collector.
    """
    shares = {name: median(each) for name, each in ratios.items()}
    sentences = [f"Goal: at least {SHARE_GOAL} of the bare route."]
    for verb, names in (
        ("reach it", [name for name, share in shares.items() if share >= SHARE_GOAL]),
        ("miss it", [name for name, share in shares.items() if share < SHARE_GOAL]),
    ):
        if names:
            sentences.append(f"These {verb}: {'; '.join(f'{name} ({shares[name]:.2f})' for name in names)}.")
    sentences.append(f"Second goal: {PEER_GOAL} times the steps of each peer's server.")
    for peer, each in found.items():
        if peer.endswith(PEER_LABEL) and each and shares:
            factors = [median(found[name]) / median(each) for name in shares]
            word = "reached" if min(factors) >= PEER_GOAL else "missed"
            sentences.append(
                f"{peer.removesuffix(PEER_LABEL)}: {word}, {min(factors):.0f} to {max(factors):.0f} times."
            )
    return " ".join(sentences)


def _peer(peers: Path, name: str, seconds: float) -> list[float]:
    """Return the steps a second of a peer's server; nothing where it is not installed or fails."""
    if not peers.exists():
        return []
    script = Path(__file__).with_name("peer_worker.py")
    command = [str(peers), str(script), name, str(WARM_UP_SECONDS), str(seconds), str(PORT + 1)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            command, stdout=subprocess.PIPE, text=True, timeout=PEER_TIMEOUT_SECONDS, check=True, env=environment
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{name} is not measured: {error}\n")
        return []
    return [float(done.stdout.split()[-1])]


def projector_table(kinds: dict[str, NewDatabase], *, steps: int) -> str:
    """Return the table of the steps that the projector completes in a second of processor time."""
    rows = [
        f"### Projector with all detectors: {steps:,} steps of 60 signals, {RUNS} runs",
        "",
        "| database | steps per CPU second | × 520 to 620, before |",
        "|---|---|---|",
    ]
    for kind, create in kinds.items():
        speed = projector_speed(create(), steps=steps)
        low, high = speed / STEPS_BEFORE[1], speed / STEPS_BEFORE[0]
        rows.append(f"| {kind} | {speed:,.0f} | {low:.1f} to {high:.1f} |")
    note = "PostgreSQL works in processes of its own, whose time is not counted. Goal: at least 2.5 times."
    return "\n".join([*rows, "", note])


def projector_speed(url: str, *, steps: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return the steps per second of a clock, which is the processor time of this process if left out."""
    core = Core(url)
    runs = _fill(core, steps=steps, runs=RUNS)
    begin = clock()
    core.project(runs)
    taken = clock() - begin
    core.close()
    return steps / taken


def _fill(core: Core, *, steps: int, runs: int) -> list[str]:
    """Append steps to the logs of some runs, and return their names."""
    names = [f"r{place}" for place in range(runs)]
    for first in range(0, steps // runs, 10):
        core.append([core.batch(run, first) for run in names])
    return names


def collectors_table(kinds: dict[str, NewDatabase], *, steps: int) -> str:
    """Return the table of the steps that one and two projectors on one PostgreSQL database complete in a second."""
    rows = [
        f"### Two collectors on PostgreSQL: {steps:,} steps of 60 signals, {SHARED_RUNS} runs",
        "",
        "| projectors | steps a second | × one |",
        "|---|---|---|",
    ]
    create = kinds.get("PostgreSQL")
    if create is None:
        return "\n".join([*rows, "| not measured: PostgreSQL is not installed | | |"])
    one = _drained(create(), steps=steps, count=1)
    two = _drained(create(), steps=steps, count=2)
    rows += [f"| 1 | {one:,.0f} | 1 |", f"| 2 | {two:,.0f} | {two / one:.2f} |"]
    note = (
        f"Goal: at least 1.6 times where there are cores for both and PostgreSQL; this machine has {os.cpu_count()}. "
        "The steps are in the log before the projectors start, each a process of its own."
    )
    return "\n".join([*rows, "", note])


def _drained(url: str, *, steps: int, count: int) -> float:
    """Return the steps a second of some projectors that start on a full log, from their readiness to its end."""
    core = Core(url)
    _fill(core, steps=steps, runs=SHARED_RUNS)
    with contextlib.ExitStack() as stack:
        for port in range(PORT, PORT + count):
            stack.enter_context(process(collector_command(url, port=port, role="projector"), port))
        begin, waiting = time.perf_counter(), _waiting_records(core)
        while left := _waiting_records(core):
            if time.perf_counter() - begin > DRAIN_SECONDS:
                raise RuntimeError(f"{left} records still wait after {DRAIN_SECONDS:.0f} s")
            time.sleep(0.1)
        taken = time.perf_counter() - begin
    core.close()
    return waiting / taken


def _waiting_records(core: Core) -> int:
    with core.store.read() as repositories:
        return repositories.projection_queue.unprojected_entries()


def lag_table(kinds: dict[str, NewDatabase], *, seconds: float) -> str:
    """Return the table of the projector's lag while steps arrive at half of its capacity."""
    rows = [
        "### Lag of the projector at half of its capacity, one collector process with everything",
        "",
        "| database | capacity | steps a second | lag, median | highest |",
        "|---|---|---|---|---|",
    ]
    highest: dict[str, float] = {}
    for kind, create in kinds.items():
        capacity = projector_speed(create(), steps=1_600, clock=time.perf_counter)
        wanted = capacity / 2
        with process(collector_command(create()), PORT) as url:
            lags, got = _lags(url, wanted, seconds)
        highest[kind] = max(lags)
        rows.append(f"| {kind} | {capacity:,.0f} | {got:,.0f} | {median(lags):.2f} s | {highest[kind]:.2f} s |")
    note = (
        "Capacity is what a projector alone completes in a second on this machine just before. Lag is the number of "
        "records that wait over the records a second."
    )
    return "\n".join([*rows, "", f"{note} {lag_goal(highest)}"])


def lag_goal(highest: Mapping[str, float]) -> str:
    """Say which databases have the highest lag, in seconds, under the goal."""
    missed = [f"{kind} ({lag:.2f} s)" for kind, lag in highest.items() if lag >= LAG_GOAL_SECONDS]
    found = f"missed by the highest lag of {', '.join(missed)}" if missed else "reached"
    return f"Goal: under {LAG_GOAL_SECONDS:g} s at every moment, {found}."


def _lags(url: str, wanted: float, seconds: float) -> tuple[list[float], float]:
    lags: list[float] = []
    with ThreadPoolExecutor(1) as threads:
        batches = wanted / STEPS_PER_BATCH
        sent = threads.submit(rate, url, SENDERS, seconds, label="lag", batches_a_second=batches)
        while not sent.done():
            time.sleep(0.25)
            text = urllib3.request("GET", f"{url}/metrics", retries=False).data.decode()
            line = next(line for line in text.splitlines() if line.startswith("rlvitals_unprojected_records"))
            lags.append(float(line.split()[-1]) / wanted)
    return lags, STEPS_PER_BATCH * sent.result()
