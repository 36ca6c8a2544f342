"""Decides what to do about an alert; the framework's callback does it. Standard library only, no framework.

Alerts arrive in the delivery thread; decisions are taken out in the training thread, between two steps.
"""

import difflib
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.wire import ALERT_KINDS, Action, ActionOutcome, ActionReport, AlertNotice, Severity

__all__ = ["Action", "ActionPolicy", "Decision"]

_NAMES = (*get_args(Severity), *sorted(ALERT_KINDS))

logger = logging.getLogger("trainer_hooks")


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that is due, with the alert that asked for it."""

    action: Action
    alert: AlertNotice

    @property
    def key(self) -> str:
        """Name the decision alike on every rank."""
        return f"{self.alert.id}/{self.alert.severity}/{self.action}"

    @property
    def reason(self) -> str:
        """Say why, for logs and files."""
        alert = self.alert
        return f"{alert.severity} {alert.kind}, open since step {alert.opened_step}: {alert.summary}"

    def report(self, outcome: ActionOutcome, detail: str = "") -> ActionReport:
        """Say what became of it, for the run's record."""
        return ActionReport(
            action=self.action, alert_id=self.alert.id, outcome=outcome, reason=self.reason, detail=detail
        )


class ActionPolicy:
    """Maps alerts to actions; in a dry run, which is the default, it only says what it would do.

    The rule for the alert's kind wins over the one for its severity. Each alert is acted on once per severity. What
    becomes of a decision, and why, is in the run's record: ``GET /api/v1/runs/{id}/actions``.

    Args:
        rules: Action by kind (such as ``"likelihood_drift"``; docs/detection.md has them all) or by severity
            (``"info"``, ``"warning"``, ``"critical"``). ``notify`` logs, ``checkpoint`` saves, ``skip_update`` leaves
            the next update out, ``stop`` ends training, ``rollback`` goes back to the last healthy checkpoint (a loop
            of your own does that itself; a Trainer cannot), ``enable_llds`` turns the regulariser of an
            LLDSGRPOTrainer on.
        dry_run: Only say what would be done.

    Raises:
        ConfigurationError: If a kind, a severity or an action is unknown.
    """

    def __init__(self, rules: Mapping[str, Action], *, dry_run: bool = True) -> None:
        for name, action in rules.items():
            if name not in _NAMES:
                near = difflib.get_close_matches(str(name), _NAMES)
                raise ConfigurationError(
                    f"a rule must be for a severity, {get_args(Severity)}, or for a kind of alert that detection finds "
                    f"(docs/detection.md), got {name!r}{f'; the nearest are {near}' if near else ''}"
                )
            if action not in get_args(Action):
                raise ConfigurationError(f"action for {name!r} must be one of {get_args(Action)}, got {action!r}")
        self._rules = dict(rules)
        self.dry_run = dry_run
        self._due: deque[Decision] = deque()
        self._foreseen: deque[Decision] = deque()
        self._seen: set[tuple[str, str]] = set()

    def take(self, alert: AlertNotice) -> None:
        """Take an alert in, in the delivery thread."""
        action = self._rules.get(alert.kind, self._rules.get(alert.severity))
        if action is None or (alert.id, alert.severity) in self._seen:
            return
        self._seen.add((alert.id, alert.severity))
        decision = Decision(action, alert)
        (self._foreseen if self.dry_run else self._due).append(decision)
        # Last: a handler or a filter of the user's may raise.
        logger.warning("rlvitals: %s%s, because of %s", "would " if self.dry_run else "", action, decision.reason)

    @property
    def actions(self) -> frozenset[Action]:
        """Every action that a rule names."""
        return frozenset(self._rules.values())

    def due(self) -> list[Decision]:
        """Give the decisions made since the last call; none in a dry run."""
        return _drained(self._due)

    def foreseen(self) -> list[Decision]:
        """Give what a dry run would have done since the last call."""
        return _drained(self._foreseen)


def _drained(decisions: deque[Decision]) -> list[Decision]:
    """Empty a queue that another thread may be filling."""
    return [decisions.popleft() for _ in range(len(decisions))]
