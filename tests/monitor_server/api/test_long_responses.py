"""Pages of responses with long texts are bounded, and so are the reads for them."""

from tests.databases import execute
from tests.sampled_responses import response


def test_what_no_page_has_room_for_is_not_read(start_collector, database_url):
    """The oldest of 12 long responses is damaged: a page that ends before it is answered."""
    live = start_collector()
    for step in range(12):
        sampled = [response() | {"text": "x" * 100_000}]
        run_id = live.run(run="r", records=[{"step": step, "scalars": {"a": 1.0}, "responses": sampled}])
    damage = "UPDATE responses SET body = substr(body, 1, 9) WHERE step = 0"
    execute(database_url, {"sqlite": damage, "postgresql": damage})
    page = live.get(f"/runs/{run_id}/responses", limit=200)
    assert 1 <= len(page["items"]) < 11
    assert page["next"] is not None
