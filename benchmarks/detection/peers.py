"""The peers, rlwatch, rl-doctor and rlprobe, each in a process of an environment of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.traces import Mark, Trace

__all__ = ["PEERS", "peer_traces"]

PEERS = {"rlwatch": "rlwatch 0.5.1", "rldoctor": "rl-doctor 0.2.0", "rlprobe": "rlprobe 0.1.0"}
WORKER = Path(__file__).with_name("peer_worker.py")
PROGRESS_SECONDS = 30.0


def peer_traces(python: Path, runs: Iterable[LabelledRun]) -> dict[str, list[Trace]]:
    """Give what each peer says about each run, at its defaults.

    Args:
        python: Interpreter of an environment with ``requirements/peers.txt`` installed.
        runs: Read once; each row goes to the peer in order.

    Raises:
        RuntimeError: If a peer's process ends early; its own words stand on standard error.
    """
    kept = list(runs)
    with ThreadPoolExecutor(len(PEERS)) as threads:
        found = [threads.submit(_traces, python, tool, kept) for tool in PEERS]
        return {name: traces.result() for name, traces in zip(PEERS.values(), found, strict=True)}


def _traces(python: Path, tool: str, runs: list[LabelledRun]) -> list[Trace]:
    with subprocess.Popen(  # noqa: S603 - our own worker, in the environment the user named
        [str(python), str(WORKER), tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        traces = []
        shown = time.monotonic()
        for done, run in enumerate(runs, start=1):
            traces.append(Trace.of(run.name, run.truth, [o.step for o in run.observations], _ask(process, tool, run)))
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                sys.stderr.write(f"{tool}: {done} of {len(runs)} runs\n")
        return traces


def _ask(process: "subprocess.Popen[str]", tool: str, run: LabelledRun) -> list[Mark]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError(f"{tool} must have pipes, got none")
    rows = [{"step": observation.step, "signals": dict(observation.signals)} for observation in run.observations]
    try:
        process.stdin.write(json.dumps({"rows": rows}) + "\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise RuntimeError(f"{tool} ended before {run.name}; see its words above") from error
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{tool} ended at {run.name}; see its words above")
    return [Mark(warn=float(warn), page=float(page)) for warn, page in json.loads(answer)["marks"]]
