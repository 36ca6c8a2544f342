"""``python -m benchmarks.overhead``: the tables, on the terminal and in a page of the documentation."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.overhead.between import Between
from benchmarks.overhead.core import slowed_by_a_neighbour
from benchmarks.overhead.race import race
from benchmarks.overhead.report import logger_table, share_table
from benchmarks.overhead.trainers import shares
from benchmarks.writing import write_whole

__all__ = ["PEERS", "main"]

PEERS = Path(".venv/overhead/bin/python")
PAYLOADS: tuple[tuple[bool, Between], ...] = ((False, "python"), (True, "python"), (True, "waiting"), (True, "torch"))
TOOLS = ("wandb", "trackio", "tensorboard", "swanlab", "mlflow", "torch")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and write the page if requested."""
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description="What the SDK costs a training")
    parser.add_argument("--peers", type=Path, default=PEERS, help="interpreter with requirements/overhead.txt")
    parser.add_argument("--steps", type=int, default=300, help="steps a round (300)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each tool (3)")
    parser.add_argument("--training-rounds", type=int, default=24, help="turns of each training (24)")
    parser.add_argument("--no-trainers", dest="trainers", action="store_false", help="do not measure whole trainings")
    parser.add_argument("--write", type=Path, help="also write the page to this Markdown file")
    given = parser.parse_args(arguments)
    if not given.peers.exists():
        parser.error(f"the tools must be installed, got no {given.peers}; make bench-overhead does it")
    conditions = _conditions(given)
    print(conditions, end="\n\n", flush=True)
    parts: list[str] = []
    for part in _parts(given):
        print(part, end="\n\n", flush=True)
        parts.append(part)
        # All measurements take hours, so each finished table is kept even if a later one fails.
        if given.write:
            write_whole(given.write, _page(conditions, parts))
    return 0


def _parts(given: argparse.Namespace) -> Iterator[str]:
    for has_arrays, between in PAYLOADS:
        results = race(
            given.peers.absolute(), has_arrays=has_arrays, steps=given.steps, rounds=given.rounds, between=between
        )
        yield logger_table(results, has_arrays=has_arrays, between=between)
    if given.trainers:
        yield "## Share of a training step\n\n" + share_table(shares(_say, rounds=given.training_rounds))


def _conditions(given: argparse.Namespace) -> str:
    site = next(given.peers.absolute().parents[1].glob("lib/python*/site-packages"))
    versions = {found.name: found.version for found in distributions(path=[str(site)])}
    named = ", ".join(f"{tool} {versions[tool]}" for tool in TOOLS)
    least, most = slowed_by_a_neighbour()
    return (
        f"{named}; {given.rounds} × {given.steps} steps of each tool, "
        f"{os.cpu_count()} cores, where a loop of Python took {least:.1f} to {most:.1f} times as long beside another."
    )


def _page(conditions: str, parts: Sequence[str]) -> str:
    begin = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return f"{begin}\n{conditions}\n\n" + "\n\n".join(parts) + "\n"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
