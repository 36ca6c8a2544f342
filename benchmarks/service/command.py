"""``python -m benchmarks.service``: the tables, on the terminal and in a page of the documentation."""

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.conditions import conditions
from benchmarks.service.charts import chart_table
from benchmarks.service.databases import NewDatabase, databases
from benchmarks.service.growth import growth_table, memory_table
from benchmarks.service.large import large_table
from benchmarks.service.throughput import collectors_table, ingest_table, lag_table, projector_table
from benchmarks.writing import write_whole

__all__ = ["main"]

PEERS = Path(".venv/overhead/bin/python")
KEPT = Path("build/service")
Kinds = dict[str, NewDatabase]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the missing measurements, print the tables, and write the page if requested."""
    parser = argparse.ArgumentParser(prog="benchmarks.service", description="What one collector does in a second")
    parser.add_argument("--peers", type=Path, default=PEERS, help="interpreter with requirements/overhead.txt")
    parser.add_argument("--quick", action="store_true", help="measure a tenth of everything, as a trial")
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder of finished tables; delete it to start anew")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="measure only these tables")
    parser.add_argument("--write", type=Path, help="also write the page to this Markdown file")
    given = parser.parse_args(arguments)
    kept = given.keep / ("quick" if given.quick else "whole")
    kept.mkdir(parents=True, exist_ok=True)
    tables: list[str] = []
    with databases() as kinds:
        for name, measure in PARTS.items():
            if given.only and name not in given.only:
                continue
            file = kept / f"{name}.md"
            if not file.exists():
                begin = time.monotonic()
                table = measure(kinds, given)
                write_whole(file, f"{table}\n\n{conditions(time.monotonic() - begin)}\n")
            tables.append(file.read_text(encoding="utf-8").rstrip())
            print(tables[-1], end="\n\n", flush=True)
            if given.write:
                _write_page(given.write, tables)
    return 0


def _write_page(page: Path, tables: Sequence[str]) -> None:
    """Write the introduction and the tables; a table of the page that was not measured now stays as it is."""
    introduction = Path(__file__).with_name("page.md").read_text(encoding="utf-8").rstrip()
    earlier = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {_heading(section): section for section in _sections(earlier)}
    sections |= {_heading(table): table for table in tables}
    write_whole(page, "\n\n".join([introduction, *sections.values()]) + "\n")


def _sections(page: str) -> list[str]:
    """Split a page into its tables, each from its heading on."""
    return [f"### {section.strip()}" for section in re.split(r"^### ", page, flags=re.MULTILINE)[1:]]


def _heading(table: str) -> str:
    """Return the name of a table without the sizes that a trial changes."""
    return table.partition("\n")[0].partition(":")[0]


def _ingest(kinds: Kinds, given: argparse.Namespace) -> str:
    seconds, rounds = (1.0, 1) if given.quick else (6.0, 5)
    return ingest_table(kinds, seconds=seconds, rounds=rounds, peers=given.peers.absolute())


def _projector(kinds: Kinds, given: argparse.Namespace) -> str:
    return projector_table(kinds, steps=800 if given.quick else 16_000)


def _lag(kinds: Kinds, given: argparse.Namespace) -> str:
    return lag_table(kinds, seconds=3.0 if given.quick else 20.0)


def _collectors(kinds: Kinds, given: argparse.Namespace) -> str:
    return collectors_table(kinds, steps=1_600 if given.quick else 32_000)


def _charts(kinds: Kinds, given: argparse.Namespace) -> str:
    return chart_table(kinds, sizes=((10_000, 60),) if given.quick else ((100_000, 60), (1_000_000, 6)))


def _large(kinds: Kinds, given: argparse.Namespace) -> str:
    steps, runs = (20_000, 40) if given.quick else (1_000_000, 1_000)
    return large_table(kinds, steps=steps, runs=runs)


def _growth(kinds: Kinds, given: argparse.Namespace) -> str:
    return growth_table(kinds, steps=300 if given.quick else 5_000)


def _memory(kinds: Kinds, given: argparse.Namespace) -> str:
    return memory_table(kinds, steps=100_000 if given.quick else 1_000_000)


PARTS: dict[str, Callable[[Kinds, argparse.Namespace], str]] = {
    "ingest": _ingest,
    "projector": _projector,
    "lag": _lag,
    "collectors": _collectors,
    "charts": _charts,
    "large": _large,
    "growth": _growth,
    "memory": _memory,
}
