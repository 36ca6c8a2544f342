"""Changed settings are in the audit log at the next start, without any secret."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from monitor_server.access.audit.settings_changes import describe_settings, record_settings
from monitor_server.settings import Settings
from tests.live import eventually
from tests.store_connections import current_connection

# Settings whose names sound like a secret: each names a file, a header, a claim or a number, and no secret itself.
HARMLESS = {
    "key_files", "key_requests_per_second", "key_bytes_per_second", "session_seconds", "oidc_client_secret_file",
    "link_secret_file",
}  # fmt: skip


def entries(store):
    """Return author, action and detail of each entry, the oldest first."""
    with store.read() as reading:
        found = reading.audit_log.page(limit=100)
    return [(entry["by"], entry["action"], entry["detail"]) for entry in reversed(found)]


def test_a_start_with_other_settings_is_one_entry(store):
    """The first start and an equal one are none; each role is compared with itself."""
    assert record_settings(store, Settings(), now=1.0) == []
    assert record_settings(store, Settings(), now=2.0) == []
    assert record_settings(store, Settings(role="web", max_records=7), now=3.0) == []
    changed = record_settings(store, Settings(max_records=5, trusted_header="X-User", insecure=True), now=4.0)
    assert changed == [
        "RLVITALS_INSECURE: False -> True",
        "RLVITALS_TRUSTED_HEADER: empty -> X-User",
        "RLVITALS_MAX_RECORDS: 10000 -> 5",
    ]
    assert entries(store) == [("configuration", "settings.change", "; ".join(changed))]


def test_a_change_at_the_end_of_a_long_value_is_an_entry(store):
    """The rights of a group may stand behind those of many others, where the shown value is cut."""
    others = "; ".join(f"group-{number}=read" for number in range(20))
    record_settings(store, Settings(oidc_groups=f"{others}; everybody=read"), now=1.0)
    (change,) = record_settings(store, Settings(oidc_groups=f"{others}; everybody=admin"), now=2.0)
    assert change.startswith("RLVITALS_OIDC_GROUPS: group-0=read; ")
    assert len(change) < 500


def test_a_long_value_that_an_earlier_version_recorded_without_a_digest_has_not_changed(store):
    """An upgrade alone is no entry."""
    settings = Settings(oidc_groups="; ".join(f"group-{number}=read" for number in range(20)))
    recorded = {name: value.partition(" (sha256 ")[0] for name, value in describe_settings(settings).items()}
    with store.write() as repositories:
        repositories.recorded_settings.write("all", recorded)
    assert record_settings(store, settings, now=1.0) == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_collectors_that_start_at_once_record_their_settings_one_after_the_other(store):
    """The second waits for the first, and compares its settings with those that the first has written."""

    def is_waiting():
        with store.read():
            return current_connection().scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    with ThreadPoolExecutor(1) as starting:
        with store.write() as first:
            first.recorded_settings.lock()
            first.recorded_settings.write("all", describe_settings(Settings(max_records=5)))
            second = starting.submit(record_settings, store, Settings(), now=1.0)
            eventually(is_waiting)
        assert second.result() == ["RLVITALS_MAX_RECORDS: 5 -> 10000"]


def test_a_setting_of_a_newer_version_is_no_change_unless_it_is_set(store):
    """An upgrade alone changes nothing."""
    record_settings(store, Settings(), now=1.0)
    with store.write() as repositories:
        older = repositories.recorded_settings.read("all")
        older.pop("max_records")
        repositories.recorded_settings.write("all", {**older, "gone": "1"})
    assert record_settings(store, Settings(), now=2.0) == []


def test_no_password_is_recorded(store):
    """No password of a database or of an address is recorded; a change of the password alone is no difference."""
    first = Settings(
        database_url="postgresql://u:pass-one@db/x?password=pass-two", oidc_issuer="https://u:pass-three@h/"
    )
    record_settings(store, first, now=1.0)
    second = Settings(database_url="postgresql://u:pass-four@db2/x", oidc_issuer="https://h/")
    (change,) = record_settings(store, second, now=2.0)
    assert "db2" in change
    with store.read() as reading:
        shown = str(reading.recorded_settings.read("all")) + change
    assert "pass-" not in shown


def test_each_setting_that_sounds_like_a_secret_was_looked_at():
    """A new setting fails here until somebody has decided which part of it is shown."""
    words = ("key", "secret", "token", "pass", "session")
    assert {name for name in Settings.model_fields if any(word in name for word in words)} == HARMLESS


@pytest.mark.parametrize("name", ["oidc_groups", "notifications", "log_level"])
def test_a_value_is_shown_as_text(name):
    """A missing value is shown as text too."""
    assert isinstance(describe_settings(Settings())[name], str)
