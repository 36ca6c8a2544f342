"""`python -m trainer_hooks.reference.experiments`: the same regime under several losses and seeds, as a table.

Every run is recorded, one JSON object a step under the canonical signal names, and every seed is shown. A run that
was cut is run again from its beginning; one that is complete is not.
"""

import argparse
import gzip
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from trainer_hooks.reference.config import PRESETS, Config
from trainer_hooks.reference.telemetry import numbers
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start

__all__ = ["ARMS", "collapse_step", "main", "smoothed", "table"]

ARMS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "llds-0.01": {"lambda_": 0.01},
    "llds-0.1": {"lambda_": 0.1},
    "llds-0.1-action": {"lambda_": 0.1, "gate": "action"},
    "lld-0.1": {"lambda_": 0.1, "gate": "none"},
    "llds-ma-0.1": {"lambda_": 0.1, "mask_answer": True},
    "nthr": {"nthr": True},
    "kl-0.01": {"kl": 0.01},
    "no-retry": {"retry": False},
    "low-lr": {"lr": 3e-4, "lr_warmup": 50},
}
"""What each arm changes in the demo's settings."""

COLLAPSE_SHARE, COLLAPSE_STEPS = 0.5, 10


def smoothed(rewards: Sequence[float], *, weight: float = 0.2) -> list[float]:
    """Give the exponential moving average of rewards, begun at the first."""
    averages: list[float] = []
    for reward in rewards:
        averages.append(reward if not averages else (1 - weight) * averages[-1] + weight * reward)
    return averages


def collapse_step(rewards: Sequence[float]) -> int | None:
    """Give the first step, from 1, at which the average falls under half its running best and stays for 10 steps."""
    best, below = 0.0, 0
    for step, average in enumerate(smoothed(rewards), start=1):
        best = max(best, average)
        below = below + 1 if average < COLLAPSE_SHARE * best else 0
        if below == COLLAPSE_STEPS:
            return step - COLLAPSE_STEPS + 1
    return None


def table(folder: Path) -> str:
    """Sum recorded runs up as a Markdown table, an arm a row, every seed shown."""
    rows = ["| arm | collapsed | seed: step of collapse | peak reward | final reward |", "|---|---|---|---|---|"]
    for arm in ARMS:
        paths = sorted(folder.glob(f"{arm}-seed*.jsonl.gz"))
        if not paths:
            continue
        runs = [[row["reward/mean"] for row in _read(path)] for path in paths]
        steps = [collapse_step(run) for run in runs]
        by_seed = [f"{_seed(path)}: {step or '–'}" for path, step in zip(paths, steps, strict=True)]
        averages = [smoothed(run) for run in runs]
        rows.append(
            f"| {arm} | {sum(step is not None for step in steps)}/{len(steps)} "
            f"| {', '.join(by_seed)} "
            f"| {_spread([max(average) for average in averages])} | {_spread([average[-1] for average in averages])} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing of the asked arms and seeds, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m trainer_hooks.reference.experiments", description=__doc__)
    parser.add_argument("arms", nargs="*", metavar="ARM", help=f"what to run: {', '.join(ARMS)}; none: the table only")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="seeds of each arm [0 1 2 3 4]")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/runs"), help="folder of recorded runs")
    parser.add_argument("--cache", type=Path, default=Config().cache, help="folder that keeps warm starts")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="demo", help="the regime [demo]")
    given = parser.parse_args(arguments)
    unknown = [arm for arm in given.arms if arm not in ARMS]
    if unknown:
        parser.error(f"arm must be one of {', '.join(ARMS)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    base = Config(**PRESETS[given.preset], cache=given.cache)
    for seed in given.seeds:
        for arm in given.arms:
            path = given.out / f"{arm}-seed{seed}.jsonl.gz"
            if not path.exists():
                _record(replace(base, seed=seed, **ARMS[arm]), path)
    print(table(given.out))  # noqa: T201 - the table is what was asked for
    return 0


def _record(config: Config, path: Path) -> None:
    """Train one run to its end and write its telemetry; the file is there whole or not at all."""
    trainer = Trainer(config, warm_start(config))
    part = path.with_suffix(".part")
    with gzip.open(part, "wt", encoding="utf-8") as file:
        while trainer.step_number < config.steps:
            result = trainer.step()
            row = {name: round(value, 6) for name, value in numbers(result, clip=config.clip).items()}
            file.write(json.dumps({"step": result.step} | row) + "\n")
            print(f"\r{path.stem} {result.step}/{config.steps} ", end="", flush=True, file=sys.stderr)  # noqa: T201
    part.replace(path)


def _read(path: Path) -> list[dict[str, float]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def _seed(path: Path) -> str:
    return path.name.split("seed")[1].split(".")[0]


def _spread(values: Sequence[float]) -> str:
    """Give median and range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
