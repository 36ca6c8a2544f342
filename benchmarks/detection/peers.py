"""The peers, rlwatch, rl-doctor and rlprobe, each in a process of an environment of its own.

Their answers on authored runs are kept beside that environment, for they change with the generator alone.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.traces import Mark, Trace

__all__ = ["PEERS", "peer_traces"]

PEERS = {"rlwatch": "rlwatch 0.5.1", "rldoctor": "rl-doctor 0.2.0", "rlprobe": "rlprobe 0.1.0"}
WORKER = Path(__file__).with_name("peer_worker.py")
PROGRESS_SECONDS = 30.0
SAVE_RUNS = 20

Answer = list[list[int]]  # [warn, page] a row
Answers = dict[str, Answer]  # by run


def peer_traces(python: Path, runs: Sequence[LabelledRun], *, version: str = "") -> dict[str, list[Trace]]:
    """Give what each peer says about each run, at its defaults.

    Args:
        python: Interpreter of an environment with ``requirements/peers.txt`` installed.
        runs: Each row goes to the peer in order.
        version: What the runs were made from; answers to runs of equal version and name are asked for once.

    Raises:
        RuntimeError: If a peer's process ends early; its own words stand on standard error.
    """
    with ThreadPoolExecutor(len(PEERS)) as threads:
        asked = [threads.submit(_answers, python, tool, runs, version) for tool in PEERS]
        answers = [found.result() for found in asked]
    return {
        name: [_trace(run, found[run.name]) for run in runs]
        for name, found in zip(PEERS.values(), answers, strict=True)
    }


def _trace(run: LabelledRun, answer: Answer) -> Trace:
    marks = [Mark(warn=float(warn), page=float(page)) for warn, page in answer]
    return Trace.of(run.name, run.truth, [observation.step for observation in run.observations], marks)


def _answers(python: Path, tool: str, runs: Sequence[LabelledRun], version: str) -> Answers:
    kept = python.parent.parent / f"answers-{tool}-{version}.json" if version else None
    answers: Answers = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    missing = [run for run in runs if run.name not in answers]
    if not missing:
        return answers
    with subprocess.Popen(  # noqa: S603 - our own worker, in the environment the user named
        [str(python), str(WORKER), tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        shown = time.monotonic()
        for done, run in enumerate(missing, start=1):
            answers[run.name] = _ask(process, tool, run)
            if kept is not None and (done % SAVE_RUNS == 0 or done == len(missing)):
                kept.write_text(json.dumps(answers))
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                sys.stderr.write(f"{tool}: {done} of {len(missing)} runs\n")
    return answers


def _ask(process: "subprocess.Popen[str]", tool: str, run: LabelledRun) -> Answer:
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
    marks: Answer = json.loads(answer)["marks"]
    return marks
