"""docs/scaling.md names the tables of the store that can be divided by run."""

import re
from pathlib import Path

from monitor_server.store.tables import metadata

PAGE = Path(__file__).parents[2] / "docs/scaling.md"


def test_the_tables_that_are_distributed_by_run_are_those_whose_key_begins_with_it():
    """A table that is forgotten there would stay on one worker, apart from the rest of its run."""
    (citus,) = re.findall(r"- \*\*Citus\*\*: (.*?)All are co-located", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    begins = {name for name, table in metadata.tables.items() if next(iter(table.primary_key)).name == "run_id"}
    named = set(re.findall(r"`([a-z_]+)`|create_distributed_table\('([a-z_]+)'", citus))
    assert {one or other for one, other in named} == begins
