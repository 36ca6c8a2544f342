"""Recording of suite D: for each failure and seed one failing run and its healthy twin, a compressed file each."""

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.detection.induced.failures import FAILURES, Failure
from benchmarks.detection.induced.setting import Setting, TrainerKind

__all__ = ["RECORDINGS", "main", "write"]

RECORDINGS = Path("benchmarks/detection/induced/recordings")
DIGITS = 4
SEEDS_APART = 100  # pairs of one number have seeds beside each other
TRAINERS_APART = 1_000_000
HALVES = 2  # an open and an unseen pair are recorded one after the other, so that an interruption leaves both kinds


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the missing runs below a folder; an interrupted recording continues at the first missing run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection.induced", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first pair of each failure (default: 0)")
    parser.add_argument("--pairs", type=int, default=4, help="pairs of each failure (default: 4)")
    parser.add_argument("--only", help="record only failures whose name begins with this text")
    parser.add_argument(
        "--trainer",
        type=TrainerKind,
        choices=list(TrainerKind),
        default=TrainerKind.GRPO,
        help="TRL's trainer (default: grpo)",
    )
    parser.add_argument("--folder", type=Path, default=RECORDINGS, help=f"default: {RECORDINGS}")
    options = parser.parse_args(arguments)
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func is called experimental
    folder = options.folder / options.trainer
    folder.mkdir(parents=True, exist_ok=True)
    first_seed = list(TrainerKind).index(options.trainer) * TRAINERS_APART
    last = options.first + options.pairs
    for begin in range(options.first, last, HALVES):
        for place, failure in enumerate(FAILURES):
            if failure.name.startswith(options.only or ""):
                for number in range(begin, min(begin + HALVES, last)):
                    seed = first_seed + number * SEEDS_APART + place
                    _record_pair(folder, options.trainer, failure, number, seed)
    return 0


def write(path: Path, meta: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Write a recording: its description, then a row a line, numbers of four digits; equal runs give equal bytes."""
    text = "".join(json.dumps(_short(line), separators=(",", ":")) + "\n" for line in [meta, *rows])
    whole = path.with_suffix(".whole")
    whole.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    whole.replace(path)


def _record_pair(folder: Path, trainer: TrainerKind, failure: Failure, number: int, seed: int) -> None:
    setting = Setting.drawn(seed, ramp=failure.ramp)
    for kind, induced in (("failing", failure), ("healthy", None)):
        path = folder / f"{failure.name}__{number}-{kind}.jsonl.gz"
        if path.exists():
            continue
        # torch and TRL take seconds to import, and nothing else here needs them.
        from benchmarks.detection.induced.training import train  # noqa: PLC0415

        begin = time.process_time()
        rows = train(setting, induced, trainer)
        meta = {
            "trainer": trainer,
            "failure": failure.name,
            "cause": failure.cause,
            "is_sudden": not failure.ramp,
            "number": number,
            "is_failing": induced is not None,
            **asdict(setting),
        }
        write(path, meta, rows)
        sys.stderr.write(f"{path.name}: {len(rows)} steps, {time.process_time() - begin:.0f} s\n")


def _short(value: Any) -> Any:  # noqa: ANN401 - walks a JSON tree
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
