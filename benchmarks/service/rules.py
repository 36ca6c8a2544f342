"""The cost of the user's rules for the projector, and the time of a dry run: python -m benchmarks.service.rules.

Each round records the same steps on a new database, projects them one slice a step, as they come from a trainer,
and repeats that with 0, 10 and 100 rules in turn. The table shows the median processor time of a slice, and its ratio
to the one without rules of the same round.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from monitor_server.access.callers import ANYBODY
from monitor_server.detection.engine import EngineFactory
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.rules.administration.changes import Author
from monitor_server.rules.administration.single_rules import create_rule
from monitor_server.rules.definition import read_rule
from monitor_server.rules.dry_run import MAX_DRY_RUN_STEPS, dry_run
from monitor_server.rules.evaluation import RuleTracker
from monitor_server.rules.known_rules import KnownRules
from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from monitor_server.store.database import Store
from monitor_server.store.repositories.steps import Step
from trainer_hooks import wire

SIGNALS = [f"signal/{number}" for number in range(36)]


def _rule(number: int) -> dict[str, object]:
    common = {"name": f"r{number}", "project": "p", "signal": SIGNALS[number % len(SIGNALS)]}
    order = {"operator": ">", "value": 1e9}
    return [
        common | order | {"condition": "threshold", "for_steps": 10},
        common | order | {"condition": "change", "before_steps": 100},
        common | {"condition": "absence", "for_seconds": 600.0},
    ][number % 3]


class _Bench:
    """A store with some rules, and the projection of one run."""

    def __init__(self, folder: Path, rules: int) -> None:
        self.store = Store.open(f"sqlite:///{folder / f'{rules}.db'}")
        with self.store.write() as repositories:
            for number in range(rules):
                create_rule(repositories, read_rule(_rule(number)), author=Author(caller=ANYBODY, now=0.0))
        known = KnownRules()
        with self.store.read() as repositories:
            known.refresh(repositories)
        self._settings = Settings()
        self._log = LogAppender(settings=self._settings, clock=time.time)
        tracker = Tracker(EngineFactory(), rules=RuleTracker(known))
        self._projection = Projection(tracker, settings=self._settings, clock=time.time)
        self.run_id = ""

    def step(self, number: int) -> float:
        """Record one step, and return the seconds that its slice takes."""
        record = {
            "step": number,
            "scalars": {name: (number * 37 + place) % 101 / 7 for place, name in enumerate(SIGNALS)},
        }
        batch = {"schema_version": wire.SCHEMA_VERSION, "run": "r", "project": "p", "records": [record]}
        body = json.dumps(batch).encode()
        valid = read_batch(body, media_type=wire.JSON, encoding="", settings=self._settings, now=time.time())
        with self.store.write() as repositories:
            self.run_id = self._log.append_deferred(repositories, valid).run_id
            self._log.flush(repositories)
        begin = time.thread_time()
        self._projection.project(self.store, self.run_id)
        return time.thread_time() - begin


def _slices(steps: int, rounds: int) -> None:
    counts = (0, 10, 100)
    ratios: dict[int, list[float]] = {count: [] for count in counts}
    medians: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            benches = {count: _Bench(Path(folder), count) for count in counts}
            seconds: dict[int, list[float]] = {count: [] for count in counts}
            for number in range(steps):
                for count, bench in benches.items():
                    seconds[count].append(bench.step(number))
            for count, bench in benches.items():
                medians[count].append(statistics.median(seconds[count]))
                ratios[count].append(medians[count][-1] / medians[0][-1])
                bench.store.close()
    print("| rules | slice of one step, ms | ratio to no rule |\n|---|---|---|")
    for count in counts:
        print(f"| {count} | {1e3 * statistics.median(medians[count]):.2f} | {statistics.median(ratios[count]):.2f} |")


def _dry_run(steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(Path(folder), 0)
        bench.step(0)
        with bench.store.read() as repositories:
            (attempt,) = repositories.attempts.ordinals(bench.run_id)
        positions = {name: place for place, name in enumerate(SIGNALS)}
        with bench.store.write() as repositories:
            values = dict.fromkeys(SIGNALS, 0.5)
            for begin in range(1, steps, 10_000):
                numbers = range(begin, min(steps, begin + 10_000))
                new = [Step(step=number, attempt=attempt, time=float(number), signals=values) for number in numbers]
                repositories.steps.put(bench.run_id, new, replace=False, positions=positions)
        for number in range(3):
            rule = read_rule(_rule(number))
            with bench.store.read() as repositories:
                begin_at = time.thread_time()
                result = dry_run(repositories, bench.run_id, rule)
                took = time.thread_time() - begin_at
            print(
                f"dry run of {rule.condition} on {steps} steps: {result.steps} read (at most {MAX_DRY_RUN_STEPS}), "
                f"{took:.2f} s, {1e6 * took / result.steps:.1f} µs a step"
            )
        bench.store.close()


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run-steps", type=int, default=1_000_000, help="steps of the run of the dry run")
    given = parser.parse_args()
    _slices(given.steps, given.rounds)
    _dry_run(given.run_steps)


if __name__ == "__main__":
    main()
