"""A migration that others have run is never edited: their database has its number, and would lack what was added."""

import hashlib
import re
from pathlib import Path

import pytest

from monitor_server.commands.doctor.database_findings import check_database
from monitor_server.errors import DatabaseUnusable
from monitor_server.store.database import Store
from monitor_server.store.schema.version import MIGRATIONS, newest_schema
from tests.databases import execute

SUMS = Path(__file__).with_name("migrations.sha256")


def test_a_migration_that_was_committed_is_not_edited_any_more():
    """Each file has the sum that was noted when it was committed, as `sha256sum` writes it."""
    noted = dict(reversed(line.split("  ", 1)) for line in SUMS.read_text().splitlines())
    found = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in (MIGRATIONS / "versions").glob("0*.py")
    }
    edited = sorted(name for name in noted if found.get(name) != noted[name])
    assert edited == [], "a database may have had these already: restore the files, and add a new migration"
    added = [f"{found[name]}  {name}" for name in sorted(found.keys() - noted.keys())]
    assert added == [], f"add these lines to {SUMS.name} once the migrations are as they shall be"


def _execute(url, statement):
    execute(url, {"sqlite": statement, "postgresql": statement})


@pytest.mark.parametrize("schema", [newest_schema(), "0034"])
def test_a_database_of_a_migration_that_was_edited_later_is_named_and_left_as_it_is(schema, database_url):
    """A start succeeded, and then no batch was stored; the version that made the database can still use it."""
    _execute(database_url, "ALTER TABLE runs DROP COLUMN responses_thinned_at")
    if schema == "0034":
        _execute(database_url, "DROP INDEX ix_alerts_pending")
        _execute(database_url, "ALTER TABLE alerts DROP COLUMN warned_step")
        _execute(database_url, "UPDATE alembic_version SET version_num = '0034'")
    for _ in range(2):  # the first start has not migrated it
        with pytest.raises(DatabaseUnusable, match=re.escape("lacks runs.responses_thinned_at: ")):
            Store.open(database_url)
    found = {each.text: each.level for each in check_database(database_url) if each.about == "schema"}
    expected = f"{schema}, the newest, and lacks the column runs.responses_thinned_at"
    assert found.get(expected) == (None if schema == "0034" else "problem")
