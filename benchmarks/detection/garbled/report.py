"""The tables on garbled responses: authored ones, recorded ones, and the detector's changes on all other suites."""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.detection.garbled.authored import FAILURES, HEALTHY, GarbledRun, make_run
from benchmarks.detection.garbled.garbling import GARBLINGS
from benchmarks.detection.results_page.tables import Table, interval, percent
from benchmarks.detection.scoring.intervals import clopper_pearson
from monitor_server.detection.engine import Engine
from monitor_server.detection.protocol import Observation

__all__ = ["authored", "recorded", "text_findings"]

KINDS = frozenset({"garbled_text", "repetition"})
WITHIN = (5, 10, 20)


@dataclass(frozen=True, slots=True)
class TextFinding:
    """A finding about the text of a step, with the name that the engine gives it."""

    step: int
    form: str


def text_findings(observations: Iterable[Observation]) -> list[TextFinding]:
    """Run the engine, and return its findings about the text: repetition is a loop whichever rule found it."""
    engine = Engine()
    return [
        TextFinding(row.step, str(finding.evidence.get("form", "loop")))
        for row in observations
        for finding in engine.update(row).findings
        if finding.kind in KINDS
    ]


def authored(first: int, runs: int) -> list[Table]:
    """Return how soon each form is found and named on authored runs, and how often healthy ones are warned."""
    made = {kind: [make_run(kind, first + number) for number in range(runs)] for kind in (*FAILURES, *HEALTHY)}
    failing = [_failing_row(kind, [_detected(run) for run in made[kind]]) for kind in FAILURES]
    healthy = [_healthy_row(kind, [bool(text_findings(run.observations)) for run in made[kind]]) for kind in HEALTHY]
    return [
        Table(title=f"Authored failures, seeds {first} to {first + runs - 1}", header=FAILING, rows=failing),
        Table(title="Authored healthy runs", header=HEALTHY_HEADER, rows=healthy),
    ]


def recorded(folder: Path, seeds: Sequence[int]) -> list[Table]:
    """Return the same for garbled responses of the reference trainer, and for those that were not garbled."""
    runs = [_read(folder / f"seed{seed}.jsonl.gz") for seed in seeds]
    names = list(runs[0][1])
    rows, healthy = [], []
    for name in names:
        form = next((each.form for key, each in GARBLINGS.items() if name.startswith(key)), None)
        form = "gibberish" if name == "temperature 3" else form
        observed = [_observations(own, variants[name]) for own, variants, _ in runs]
        if form is None:
            healthy.append(
                _healthy_row(f"{name}, from step {runs[0][2]}", [bool(text_findings(seen)) for seen in observed])
            )
        else:
            found = [
                _first(text_findings(seen), onset, form) for seen, (_, _, onset) in zip(observed, runs, strict=True)
            ]
            rows.append(_failing_row(name, found))
    own = [bool(text_findings(_observations(each, {}))) for each, _, _ in runs]
    healthy.insert(0, _healthy_row("as recorded", own))
    title = f"Recorded responses of the reference trainer, garbled; seeds {', '.join(map(str, seeds))}"
    return [
        Table(title=title, header=FAILING, rows=rows),
        Table(title="The same responses, not garbled", header=HEALTHY_HEADER, rows=healthy),
    ]


Detected = tuple[int | None, bool, bool]
"""Rows from the onset to the first finding, whether it was named rightly, and whether one stood before the onset."""

FAILING = (
    "responses",
    *(f"found within {rows} rows" for rows in WITHIN),
    "found",
    "median rows",
    "named rightly",
    "before",
)
HEALTHY_HEADER = ("responses", "runs warned", "95 %")


def _detected(run: GarbledRun) -> Detected:
    assert run.onset is not None  # noqa: S101 - a failure has one
    return _first(text_findings(run.observations), run.onset, run.form)


def _first(found: Sequence[TextFinding], onset: int, form: str | None) -> Detected:
    before = any(finding.step < onset for finding in found)
    after = [finding for finding in found if finding.step >= onset]
    if not after:
        return None, False, before
    opened = after[0].step
    return opened - onset, form in {finding.form for finding in after if finding.step <= opened + WITHIN[0]}, before


def _failing_row(name: str, found: Sequence[Detected]) -> list[str]:
    delays = [np.inf if delay is None else delay for delay, _, _ in found]
    median = float(np.median(delays))
    named = sum(is_named for _, is_named, _ in found)
    seen = sum(delay is not None for delay, _, _ in found)
    return [
        name,
        *(f"{sum(delay <= rows for delay in delays)} of {len(found)}" for rows in WITHIN),
        f"{seen} of {len(found)}",
        "never" if np.isinf(median) else f"{median:.0f}",
        f"{named} of {seen}",
        str(sum(before for _, _, before in found)),
    ]


def _healthy_row(name: str, warned: Sequence[bool]) -> list[str]:
    count, total = sum(warned), len(warned)
    return [name, f"{count} of {total}, {percent(count / total)}", interval(clopper_pearson(count, total))]


Signals = dict[str, float]
Recording = tuple[dict[int, Signals], dict[str, dict[int, Signals]], int]
"""A run's own signals by step, those that differ by variant and step, and the step from which there are variants."""


def _read(path: Path) -> Recording:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        meta, *rows = (json.loads(line) for line in file)
    own: dict[int, Signals] = {}
    variants: dict[str, dict[int, Signals]] = {}
    for row in rows:
        name, step = row.pop("variant"), row.pop("step")
        (variants.setdefault(name, {}) if name else own)[step] = row
    return own, variants, int(meta["onset"])


def _observations(own: dict[int, Signals], other: dict[int, Signals]) -> list[Observation]:
    """Return a run in which some steps have other responses; signals that these lack are not observed."""
    rows: list[Observation] = []
    for step, signals in own.items():
        changed: dict[str, Any] = signals
        if step in other:
            kept = {name: value for name, value in signals.items() if not name.startswith(("text/", "likelihood/"))}
            changed = kept | other[step]
        rows.append(Observation(step=step, signals=changed))
    return rows
