"""Settings: read from the environment only, and each documented."""

from pathlib import Path

import pytest

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
