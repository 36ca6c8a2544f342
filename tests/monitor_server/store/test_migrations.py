"""A database that an older version wrote keeps its data: it is migrated, and the API answers the same."""

import gzip
import json
from pathlib import Path

import pytest

DATABASES = Path(__file__).parent / "databases"


def differences(new, old, path=""):
    """Yield where an answer lacks what the older one had; what is new in it does not matter."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{path}/{key} is missing"
            else:
                yield from differences(new[key], value, f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (here, there) in enumerate(zip(new, old, strict=True)):
            yield from differences(here, there, f"{path}/{place}")
    elif new != old:
        yield f"{path}: {new!r} instead of {old!r}"


@pytest.mark.parametrize("revision", ["0005", "0006"])
def test_an_older_database_answers_as_before(start_collector, clock, tmp_path, revision):
    """Runs, steps, series, phases, alerts, responses, actions and acknowledgements survive the migrations."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((DATABASES / f"{revision}.db.gz").read_bytes()))
    saved = json.loads((DATABASES / f"{revision}.json").read_text())
    clock.now = saved["now"]
    live = start_collector(database_url=f"sqlite:///{path}", clock=clock, step_deadline_seconds=100_000.0)
    for asked, answer in saved["answers"].items():
        found = live.get(asked, **({"limit": 1000} if asked == "/alerts" else {}))
        assert list(differences(found, answer, asked)) == []
    (run,) = [run["id"] for run in saved["answers"]["/runs"]["items"] if run["name"] == "two ranks"]
    last = {"step": 75, "scalars": {"reward/mean": 0.25}}
    live.send(run="two ranks", project="laboratory", attempt=2, rank=1, world_size=2, records=[last])
    assert live.get(f"/runs/{run}")["last_step"] == 75  # what waited for rank 1 is complete now
