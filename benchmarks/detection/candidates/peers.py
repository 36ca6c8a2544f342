"""The peers, rlwatch, rl-doctor and rlprobe, each in a process of a separate environment.

Their answers are kept beside that environment, by the digest of the rows, so that a peer never reads equal rows twice.
Answers to another worker, or of other versions of the peers, are not read.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.detection.runs import LabelledRun
from benchmarks.detection.scoring.traces import Mark, Trace
from benchmarks.writing import write_whole

__all__ = ["PEERS", "peer_traces"]

PEERS = {"rlwatch": "rlwatch 0.5.1", "rldoctor": "rl-doctor 0.2.0", "rlprobe": "rlprobe 0.1.0"}
WORKER = Path(__file__).with_name("peer_worker.py")
REQUIREMENTS = Path(__file__).parents[3] / "requirements/peers.txt"
PROGRESS_SECONDS = 30.0
SAVE_RUNS = 20

Answer = list[list[int]]  # [warn, page] a row
Answers = dict[str, Answer]  # by the digest of the rows


def peer_traces(python: Path, runs: Sequence[LabelledRun]) -> dict[str, list[Trace]]:
    """Return the traces of each peer on each run, at its defaults.

    Args:
        python: Interpreter of an environment with ``requirements/peers.txt`` installed.
        runs: Each row goes to the peer in order.

    Raises:
        RuntimeError: If a peer's process ends early; its messages are on standard error.
    """
    with ThreadPoolExecutor(len(PEERS)) as threads:
        asked = [threads.submit(_answers, python, tool, runs) for tool in PEERS]
        answers = [found.result() for found in asked]
    return {
        name: [_trace(run, answer) for run, answer in zip(runs, found, strict=True)]
        for name, found in zip(PEERS.values(), answers, strict=True)
    }


def _trace(run: LabelledRun, answer: Answer) -> Trace:
    marks = [Mark(warn=float(warn), page=float(page)) for warn, page in answer]
    return Trace.of(run.name, run.truth, [observation.step for observation in run.observations], marks)


def _answers(python: Path, tool: str, runs: Sequence[LabelledRun]) -> list[Answer]:
    asked_by = hashlib.sha256(WORKER.read_bytes() + REQUIREMENTS.read_bytes()).hexdigest()[:8]
    kept = python.parent.parent / f"answers-{PEERS[tool].replace(' ', '-')}-{asked_by}.json"
    answers: Answers = json.loads(kept.read_text()) if kept.exists() else {}
    questions = [_question(run) for run in runs]
    digests = [hashlib.sha256(question.encode()).hexdigest()[:16] for question in questions]
    missing = [row for row, digest in enumerate(digests) if digest not in answers]
    if missing:
        _ask_all(python, tool, {digests[row]: (runs[row].name, questions[row]) for row in missing}, answers, kept)
    return [answers[digest] for digest in digests]


def _ask_all(python: Path, tool: str, asked: Mapping[str, tuple[str, str]], answers: Answers, kept: Path) -> None:
    """Let one peer read the rows that it has not read before, and keep its answers."""
    with subprocess.Popen(  # noqa: S603 - our own worker, in the environment the user named
        [str(python), str(WORKER), tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        shown = time.monotonic()
        for done, (digest, (name, question)) in enumerate(asked.items(), start=1):
            answers[digest] = _ask(process, tool, name, question)
            if done % SAVE_RUNS == 0 or done == len(asked):
                write_whole(kept, json.dumps(answers))
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                sys.stderr.write(f"{tool}: {done} of {len(asked)} runs\n")


def _question(run: LabelledRun) -> str:
    rows = [{"step": observation.step, "signals": dict(observation.signals)} for observation in run.observations]
    return json.dumps({"rows": rows})


def _ask(process: "subprocess.Popen[str]", tool: str, name: str, question: str) -> Answer:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError(f"{tool} must have pipes, got none")
    try:
        process.stdin.write(question + "\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise RuntimeError(f"{tool} ended before {name}; see its output above") from error
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{tool} ended at {name}; see its output above")
    marks: Answer = json.loads(answer)["marks"]
    return marks
