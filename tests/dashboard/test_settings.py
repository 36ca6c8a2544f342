"""The dashboard on its own: what it reads from the environment."""

import pytest

from dashboard.__main__ import main


def test_a_setting_that_cannot_be_used_is_reported_in_one_line(monkeypatch):
    """The start ends with the variable's name and no traceback; a text given to SystemExit is status 1."""
    monkeypatch.setenv("RLVITALS_DASHBOARD_PORT", "eighty")
    with pytest.raises(SystemExit, match=r"^rlvitals: .*port.*docs/configuration\.md$"):
        main()
