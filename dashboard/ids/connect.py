"""The lines that connect a trainer."""

from typing import Final

SAMPLE: Final = "connect-sample"
SAMPLE_STATE: Final = "connect-sample-state"
WAY: Final = "connect-way"


def panel(name: str) -> dict[str, str]:
    """Return the id of the lines that connect a kind of trainer."""
    return {"type": "connect-panel", "name": name}
