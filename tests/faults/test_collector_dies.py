import pytest
import urllib3

from tests.faults.collector import start
from tests.live import eventually

RANKS = 4
KILLS = 20
STEPS_PER_LIFE = 50


def _runs(url):
    """Return the runs that the collector shows, which is some way behind the records that it has stored."""
    return urllib3.request("GET", f"{url}/api/v1/runs").json()["items"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_collector_killed_twenty_times_in_a_thousand_steps_has_every_record_once(
    tmp_path, unused_port, start_trainer, stored
):
    """Four ranks log 1,000 steps while the collector is killed -9 in the middle of taking them, twenty times."""
    url = f"http://127.0.0.1:{unused_port}"
    ranks = [start_trainer(url, RANK=str(rank), WORLD_SIZE=str(RANKS), RLVITALS_ATTEMPT="1") for rank in range(RANKS)]
    for _ in range(KILLS):
        with start(tmp_path / "rlvitals.db", unused_port) as collector:
            before = len(stored())
            for rank in ranks:
                rank.grant(STEPS_PER_LIFE)
            eventually(lambda before=before: len(stored()) > before, seconds=60)
            collector.kill()
    with start(tmp_path / "rlvitals.db", unused_port) as collector:
        lost = [rank.end() for rank in ranks]
        (run,) = eventually(lambda: [run for run in _runs(url) if run["last_step"] == KILLS * STEPS_PER_LIFE - 1])
        collector.kill()
    assert lost == [0] * RANKS
    expected = [(1, rank, step) for rank in range(RANKS) for step in range(KILLS * STEPS_PER_LIFE)]
    assert stored() == expected
    assert run["status"] == "finished"
