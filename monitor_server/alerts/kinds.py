"""The kinds of alerts: those of the detectors and of silent runs, and those of rules by their names."""

from typing import Final

from monitor_server.alerts.liveness import LOST, STALE
from monitor_server.detection.protocol import RULE_PREFIX
from trainer_hooks.wire import ALERT_KINDS

__all__ = ["KINDS", "is_kind"]

KINDS: Final = ALERT_KINDS | {STALE, LOST}


def is_kind(kind: str) -> bool:
    """Return whether an alert may have this kind; a rule may be written after somebody names its kind."""
    return kind in KINDS or (kind.startswith(RULE_PREFIX) and kind != RULE_PREFIX)
