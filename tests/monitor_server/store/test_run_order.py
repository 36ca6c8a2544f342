"""Phases have one order, which the store's SQL states again; here it is held to detection's. So have severities."""

import itertools
import uuid

import pytest

from monitor_server.alerts.liveness import shown_phase
from monitor_server.detection.protocol import MOST_SEVERE_FIRST, Phase, Severity
from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_filter import Condition, RunFilter
from monitor_server.store.repositories.run_order import WORST_PHASES
from monitor_server.store.repositories.run_status import run_status
from monitor_server.store.repositories.runs import Run

DEADLINES = Deadlines(lost_factor=10.0, expiry_seconds=5_000.0)
NOW = 10_000.0
COMMON = {"source": "", "capability": "L1", "world_size": 1, "attempt": 1, "started_at": 0.0, "stall_seconds": 100.0}
# For each status: the time of the trainer's last message, the time of its last step, and its end.
HEARD = {
    "running": (NOW, NOW, None),
    "stalled": (NOW, NOW - 101.0, None),
    "lost": (NOW - 1_001.0, NOW - 1_001.0, None),
    "stopped": (NOW - 5_001.0, NOW - 5_001.0, None),
    "finished": (NOW - 5_001.0, NOW - 5_001.0, "finished"),
}


def test_the_stores_phases_are_detections_the_worst_first():
    """An unknown phase is last, because it has no urgency."""
    known = [phase for phase in Phase if phase is not Phase.UNKNOWN]
    assert list(WORST_PHASES) == [*reversed(known), Phase.UNKNOWN]


def test_the_stores_severities_are_detections_the_most_severe_first():
    """Counts and sorting name each severity once."""
    assert list(MOST_SEVERE_FIRST) == sorted(Severity, key=lambda severity: -severity.rank)


@pytest.mark.parametrize("quarantined_at", [None, NOW])
@pytest.mark.parametrize("status", HEARD)
def test_lists_filter_and_group_by_the_phase_that_readers_see(store, status, quarantined_at):
    """The function that answers show, and the expression by which lists are filtered and grouped, agree."""
    last_seen, last_step_at, ended = HEARD[status]
    for phase in (*Phase, "of a later version"):
        project = uuid.uuid4().hex
        run = Run(
            id=project, name="run", project=project, phase=phase,
            last_seen=last_seen, last_step_at=last_step_at, ended=ended, quarantined_at=quarantined_at, **COMMON,
        )  # fmt: skip
        assert run_status(run, now=NOW, deadlines=DEADLINES) == status
        with store.write() as repositories:
            repositories.runs.add(run)
            views, groups = repositories.run_views, repositories.run_groups
            (group,) = groups.page(RunFilter(project=project), "phase", now=NOW, deadlines=DEADLINES, limit=9)
            filters = {each: RunFilter(project=project, phase=[each]) for each in Phase}
            listed = [each for each in Phase if views.count(filters[each], now=NOW, deadlines=DEADLINES)]
        shown = shown_phase(status, phase, is_quarantined=quarantined_at is not None)
        assert (group["name"], group["phase"], listed) == (shown, shown, [shown])


def test_lists_read_no_configuration(store):
    """A thousand runs may have 128 MB of it, and only the page of one run shows it."""
    run = Run(id="r", name="run", project="p", last_seen=NOW, last_step_at=NOW, **COMMON)
    with store.write() as repositories:
        repositories.runs.add(run)
        views, times = repositories.run_views, {"now": NOW, "deadlines": DEADLINES}
        rows = [*views.page(RunFilter(), limit=1, **times), *views.live(limit=1, **times), views.find("r", **times)]
        assert [{"config", "notes"} & row.keys() for row in rows] == [set(), set(), set()]
        assert {"config", "notes"} <= views.find_detail("r", **times).keys()


def test_a_worse_phase_leads_its_group(store):
    """The worst of each two phases is the one of the group that holds both."""
    for first, second in itertools.combinations(WORST_PHASES, 2):
        project = uuid.uuid4().hex
        with store.write() as repositories:
            for place, phase in enumerate((second, first)):
                run = Run(
                    id=f"{project}{place}", name=f"run{place}", project=project, phase=phase,
                    last_seen=NOW, last_step_at=NOW, **COMMON,
                )  # fmt: skip
                repositories.runs.add(run)
            groups = repositories.run_groups
            (group,) = groups.page(RunFilter(project=project), "project", now=NOW, deadlines=DEADLINES, limit=9)
        assert group["phase"] == first


@pytest.mark.parametrize("part", ["élan Œ", "ÉLAN œ", "straße", "i%", "STRAẞE", "σας", "ΣΑΣ", "ασ", "μs"])
def test_a_column_is_searched_without_regard_to_case(store, part):
    """A PostgreSQL database of locale C, as that of Docker Compose, knows no case of letters beyond ASCII."""
    common = COMMON | {"last_seen": NOW, "last_step_at": NOW}
    with store.write() as repositories:
        for place, name in enumerate(("ÉLAN Œ", "Straße", "I%", "ΣΑΣ", "5 µs", "other")):
            repositories.runs.add(Run(id=f"r{place}", name=name, project="p", **common))
        wanted = RunFilter(conditions=[Condition("name", "contains", part)])
        assert repositories.run_views.count(wanted, now=NOW, deadlines=DEADLINES) == 1
