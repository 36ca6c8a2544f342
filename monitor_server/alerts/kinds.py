"""The kinds of alerts: those of the detectors and of silent runs, and those of rules by their names."""

from typing import Final

from monitor_server.alerts.liveness import LOST, STALE
from monitor_server.detection.protocol import RULE_PREFIX
from monitor_server.text_safety.printable import printable
from trainer_hooks.wire import ALERT_KINDS

__all__ = ["KINDS", "MONITOR_DEGRADED", "is_kind", "refusal_of_kind"]

MONITOR_DEGRADED: Final = "monitor_degraded"
"""Detection failed at a step, or the run cannot be processed."""

KINDS: Final = ALERT_KINDS | {STALE, LOST}


def is_kind(kind: str) -> bool:
    """Return whether an alert may have this kind. A kind may be named before its rule is written."""
    return kind in KINDS or (kind.startswith(RULE_PREFIX) and kind != RULE_PREFIX)


def refusal_of_kind(kind: str) -> str:
    """Return the message for a text that is not a kind, with the list of the kinds."""
    return (
        f"must be a kind of alert, got {printable(kind, longest=100)!r}; the kinds are {', '.join(sorted(KINDS))}, and "
        f"{RULE_PREFIX}NAME for a rule"
    )
