"""Checks the environment variables: unusable values, and names that belong to no setting."""

import difflib
import os
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from monitor_server.commands.doctor.findings import DoctorFinding, Level
from monitor_server.commands.settings import unusable_settings
from monitor_server.settings import Settings

__all__ = ["check_settings"]

PREFIX = "RLVITALS_"
# The variables of the SDK, of a separate dashboard and of Docker Compose; a test compares this with
# docs/configuration.md.
OTHERS = frozenset(
    PREFIX + name
    for name in (
        "API_KEY", "API_URL", "ATTEMPT", "DASHBOARD_CONNECT_URL", "DASHBOARD_HOST", "DASHBOARD_PORT", "HOOKS",
        "PROJECT", "RESPONSES", "RESPONSE_BYTES", "RESPONSE_SECONDS", "RUN", "SPOOL_BYTES", "SPOOL_DIR", "TEXTS", "URL",
    )
)  # fmt: skip


def check_settings(environ: Mapping[str, str] | None = None) -> Iterator[DoctorFinding]:
    """Yield a finding for each unusable setting of the collector, or one finding if all are usable."""
    environ = os.environ if environ is None else environ
    given = {name for name in environ if name.upper().startswith(PREFIX)}
    ours = {PREFIX + name.upper() for name in Settings.model_fields}
    own = {name for name in given if name.upper() in ours}  # the collector reads small letters too, the others do not
    is_fine = True
    for name in sorted(given - own - OTHERS):
        is_fine = False
        own_part = name.upper().removeprefix(PREFIX)  # with the prefix, any name would be near another one
        near = difflib.get_close_matches(own_part, [each.removeprefix(PREFIX) for each in ours | OTHERS], n=1)
        yield DoctorFinding(
            level=Level.WARNING,
            about="settings",
            text=f"no setting is called {name}, so it has no effect",
            advice=f"did you mean {PREFIX}{near[0]}?" if near else "docs/configuration.md lists all settings",
        )
    try:
        Settings()
    except ValidationError as error:
        is_fine = False
        for name, problem in unusable_settings(error):
            yield DoctorFinding(
                level=Level.PROBLEM,
                about="settings",
                text=f"{name} cannot be used: {problem}",
                advice="correct it; a collector does not start with it (docs/configuration.md)",
            )
    if is_fine:
        text = f"the environment sets {len(own)} of the collector, all can be used"
        if others := len(given - own):
            text += f"; {others} of trainers or of a separate dashboard are not checked"
        yield DoctorFinding(level=Level.OK, about="settings", text=text)
