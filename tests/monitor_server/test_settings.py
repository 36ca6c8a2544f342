"""Settings: read from the environment only, and each documented."""

import contextlib
from pathlib import Path

import pytest
from pydantic import ValidationError

from monitor_server.settings import Settings

DOCUMENTED = Path("docs/configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_is_documented_with_its_default(name):
    """The table in docs/configuration.md has a row with the variable and its default."""
    row = next((line for line in DOCUMENTED.splitlines() if f"`RLVITALS_{name.upper()}`" in line), "")
    default = Settings.model_fields[name].default
    assert f"`{default:g}`" in row if isinstance(default, float) else f"`{default}`" in row


def test_settings_come_from_the_environment(monkeypatch):
    """`RLVITALS_PORT` sets the port."""
    monkeypatch.setenv("RLVITALS_PORT", "8601")
    assert Settings().port == 8601


@pytest.mark.parametrize(
    ("address", "is_site"),
    [
        ("https://vitals.example.org", True), ("http://[2001:db8::1]:8600/", True), ("https://example.org/a", True),
        ("http://2001:db8::1:8600", False), ("http://[::1", False), ("http://:8600", False), ("https://", False),
        ("https://example.org/?a=b", False), ("https://example.org/#a", False), ("http://example.org:x", False),
        ("https://ann:hidden@example.org", False),
    ],
)  # fmt: skip
def test_a_public_address_is_one_to_which_paths_can_be_added(address, is_site):
    """Every link of a notification begins with it."""
    with contextlib.nullcontext() if is_site else pytest.raises(ValueError, match="IPv6 in brackets"):
        assert Settings(public_url=address).link_url == address.rstrip("/")


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - {"dashboard"}))
def test_an_empty_variable_counts_as_not_set(name, monkeypatch):
    """Docker Compose passes `${NAME:-}` on as an empty value; an empty host would listen on every address."""
    monkeypatch.setenv(f"RLVITALS_{name.upper()}", "")
    assert getattr(Settings(), name) == Settings.model_fields[name].default


@pytest.mark.parametrize("blank", ["\r", " ", "\n"])
def test_blanks_around_a_value_are_no_part_of_it(blank, monkeypatch):
    """A file from Windows ends its lines with one more character, and would name another, empty database."""
    monkeypatch.setenv("RLVITALS_DATABASE_URL", f"sqlite:////data/rlvitals.db{blank}")
    monkeypatch.setenv("RLVITALS_HOST", blank)
    assert Settings().database_url == "sqlite:////data/rlvitals.db"
    assert Settings().host == "127.0.0.1"


def test_an_empty_dashboard_is_none(monkeypatch):
    """docs/configuration.md states this."""
    monkeypatch.setenv("RLVITALS_DASHBOARD", "")
    assert Settings().dashboard == ""


@pytest.mark.parametrize("name", ["EXPOSED_RUNS", "RECORD_STEPS", "STREAM_QUEUE"])
def test_a_number_that_no_database_can_hold_ends_the_start(name, monkeypatch):
    """Before, each scrape and each round of retention failed at it."""
    monkeypatch.setenv(f"RLVITALS_{name}", str(10**19))
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()


@pytest.mark.parametrize("name", ["TICK_SECONDS", "RETENTION_SECONDS", "IDLE_TIMEOUT_SECONDS", "VERDICT_WAIT_SECONDS"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
def test_a_wait_without_an_end_ends_the_start(name, value, monkeypatch):
    """The thread that waits so long would end, and detection with it, while the collector goes on to serve."""
    monkeypatch.setenv(f"RLVITALS_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()
