"""A dashboard on its own is set by variables that stand in docs/configuration.md; other tests hold the rest."""

import re
import tomllib
from pathlib import Path

import pytest

from dashboard.settings import Settings as DashboardSettings

ROOT = Path(__file__).parents[2]
DOCUMENTED = set(re.findall(r"^\| `(RLVITALS_\w+)`", (ROOT / "docs/configuration.md").read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("name", list(DashboardSettings.model_fields))
def test_every_setting_of_a_dashboard_on_its_own_is_documented(name):
    """The variable is the prefix and the field, or the alias."""
    alias = DashboardSettings.model_fields[name].validation_alias
    variable = f"RLVITALS_DASHBOARD_{name.upper()}" if alias is None else alias.choices[0]
    assert variable in DOCUMENTED


def test_the_pages_name_what_is_left_out_of_all_extras_and_of_the_image():
    """Who uses either can export no Parquet; if that changes, the sentences go too."""
    (everything,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["all"]
    assert {"parquet", "otel"}.isdisjoint(re.findall(r"\w+", everything))
    assert "[parquet] and [otel] are not in all\n" in (ROOT / "docs/deployment.md").read_text()
    assert "pyarrow" not in (ROOT / "requirements/collector.txt").read_text()
    assert "Neither the image of [Docker Compose]" in (ROOT / "docs/export.md").read_text()
