"""The settings' limits of retention."""

from typing import Final

RETENTION: Final = "retention"
ASKED: Final = "retention-asked"  # the limits that a person is asked to confirm, and what they have seen
CONFIRMED: Final = "retention-confirmed"
DRAWN: Final = "retention-drawn"  # the limits that the form was drawn with
SAVE: Final = "retention-save"
STATE: Final = "retention-state"
