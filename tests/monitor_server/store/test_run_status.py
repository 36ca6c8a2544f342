"""The status of a run is one rule: the function and the SQL filter agree on every run at every time."""

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor_server.settings import Deadlines
from monitor_server.store.repositories.run_status import run_status
from monitor_server.store.repositories.runs import Run

DEADLINES = Deadlines(lost_factor=10.0, expiry_seconds=5_000.0)
TIMES = st.sampled_from([0.0, 1.0, 99.0, 100.0, 101.0, 1_000.0, 1_001.0, 4_999.0, 5_000.0, 5_001.0, 9_000.0])


RUNS = st.fixed_dictionaries(
    {
        "ended": st.none() | st.sampled_from(["finished", "stopped"]),
        "given_up_at": st.none() | TIMES,
        "last_seen": TIMES,
        "last_step_at": TIMES,
        "stall_seconds": st.sampled_from([100.0, 300.0]),
    }
)
COMMON = {"project": "p", "source": "", "capability": "L1", "world_size": 1, "attempt": 1, "started_at": 0.0}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=RUNS, now=TIMES)
def test_the_function_and_the_filter_agree(store, fields, now):
    """They agree for every end, silence and deadline, also at the exact second."""
    name = uuid.uuid4().hex
    run = Run(id=name, name=name, **COMMON, **fields)
    with store.write() as repositories:
        repositories.runs.add(run)
        found = repositories.run_views.find(name, now=now, deadlines=DEADLINES)
    assert found["status"] == run_status(run, now=now, deadlines=DEADLINES)
