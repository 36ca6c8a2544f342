"""Writes the database `REVISION.db.gz` and the answers of its API, `REVISION.json`, with the schema of a commit.

Schema 0005 was written at commit f9103cf, 0006 at d26b601 and 0008 at ef6ba11, each from the root of the repository:
``python -m tests.monitor_server.store.databases.write_database REVISION``. The files stay as they were written then:
the migrations are tested on them.
"""

import gzip
import json
import math
import sqlite3
import sys
import tempfile
from pathlib import Path

from monitor_server.settings import Settings
from tests.live import serving
from tests.sampled_responses import array

HERE = Path(__file__).parent


class Clock:
    """A clock that stands until it is set."""

    now = 1_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def record(step, rank, *, bad=False):
    """Return a record of one of two ranks: entropy falls to nothing, likelihood falls, numbers of every kind."""
    share = 1 + rank
    entropy = 1.2 * math.exp(-step / 15) + 0.01 * math.sin(step)
    scalars = {
        "reward/mean": 0.4 - 0.002 * step,
        "entropy/mean": entropy,
        "grad/norm": "NaN" if bad else 0.5 + 0.01 * math.cos(3 * step),
        "odd/infinite": "-Infinity" if step % 7 == 0 else 5e-324,
    }
    if step % 5 == 0:
        scalars["eval/score"] = step / 10
    mean = -0.4 - 0.01 * step
    counts = array([step, share, 0, 2], "int64")
    sums = {"type": "moments", "count": share, "sum": mean * share, "sum_squares": (mean * mean + 0.01) * share}
    summaries = {
        "likelihood/correct": sums,
        "likelihood/correct_std": sums | {"statistic": "std"},
        "ratio/max": {"type": "extreme", "extreme": 1.0 + step / 10 + rank},
        "length/p50": {"type": "histogram", "low": 0.0, "high": 4.0, "counts": counts, "quantile": 0.5},
    }
    return {"step": step, "time": 1_000_000.0 + 10 * step, "policy_version": step, "scalars": scalars} | {
        "summaries": summaries
    }


def response(step):
    """Return a sampled response."""
    return {
        "kinds": ["displaced"],
        "reward": 1.0,
        "correct": True,
        "length": 3,
        "logprob": -1.5,
        "displacement": -0.25 * step,
        "actions": array([[0, 2], [3, 4]], "int32"),
        "logprobs": array([-0.5, -0.5, -0.5], "float16"),
        "token_ids": array([7, 8, 9, 7], "int32"),
    }


def fill(live, clock):
    """Send runs of every kind and return their ids."""
    two = {"run": "two ranks", "project": "laboratory", "world_size": 2, "capability": "L3", "source": "fixture"}
    live.send(**two, rank=0, config={"lr": 1e-6, "nested": {"clip": [0.2, "NaN"]}})
    for attempt, first, last in ((1, 0, 90), (2, 60, 75)):
        for step in range(first, last):
            clock.now = 1_000_000.0 + 10 * step + 1000 * (attempt - 1)
            for rank in (0, 1):
                shard = record(step, rank, bad=attempt == 1 and 70 <= step < 74)
                if step % 10 == 0 and rank == 0:
                    shard["responses"] = [response(step)]
                if (attempt, step) == (1, 80) and rank == 1:
                    continue  # comes late, below
                live.send(**two, attempt=attempt, rank=rank, records=[shard])
            if (attempt, step) == (1, 80):
                live.send(**two, attempt=attempt, rank=1, records=[record(81, 1)])
        if attempt == 1:
            alert = live.get("/alerts", limit=1)["items"][0]
            body = json.dumps({"by": "Ada", "note": "seen"}).encode()
            answer = live.pool.request(
                "POST",
                f"{live.url}/api/v1/alerts/{alert['id']}/ack",
                body=body,
                headers={"Content-Type": "application/json"},
            )
            assert answer.status == 200, answer.data
    live.send(**two, attempt=1, rank=1, records=[record(80, 1)])  # the late shard mends a complete step
    action = {"action": "checkpoint", "alert_id": "a1", "outcome": "taken", "reason": "critical", "detail": "at 74"}
    live.send(**two, attempt=2, rank=0, records=[record(75, 0) | {"actions": [action]}])  # step 75 waits for rank 1
    live.send(run="done", records=[{"step": step, "scalars": {"a": step / 3}} for step in range(5)], end="finished")
    live.send(run="never began", config={"only": "a hello"})
    clock.now += 5
    return [run["id"] for run in live.get("/runs")["items"]]


def answers(live):
    """Return the answers of the API about everything that is stored."""
    found = {"/runs": live.get("/runs"), "/alerts": live.get("/alerts", limit=1000)}
    for run in found["/runs"]["items"]:
        for path in ("", "/series", "/steps?limit=1000", "/phases", "/alerts", "/actions", "/acknowledgements"):
            found[f"/runs/{run['id']}{path}"] = live.get(f"/runs/{run['id']}{path}")
        found[f"/runs/{run['id']}/responses"] = live.get(f"/runs/{run['id']}/responses")
    return found


def main():
    """Write the two files."""
    (revision,) = sys.argv[1:]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{revision}.db"
        # The deadline lies beyond the fixture's clock, so that waiting steps still wait.
        settings = Settings(
            database_url=f"sqlite:///{path}", dashboard="", step_deadline_seconds=100_000.0, tick_seconds=3600
        )
        with serving(settings, clock=clock) as live:
            fill(live, clock)
            found = {"now": clock.now, "answers": answers(live)}
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.commit()
            connection.execute("VACUUM")
        connection.close()
        (HERE / f"{revision}.db.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    (HERE / f"{revision}.json").write_text(json.dumps(found, indent=None, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(found['answers'])} answers\n")


if __name__ == "__main__":
    main()
