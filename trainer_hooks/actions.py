"""Decides what to do about an alert; the framework's callback does it. Standard library only, no framework.

Alerts arrive in the delivery thread; decisions are taken out in the training thread, between two steps.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.wire import AlertNotice

__all__ = ["Action", "ActionPolicy", "Decision"]

logger = logging.getLogger("trainer_hooks")

Action = Literal["notify", "checkpoint", "skip_update", "stop", "enable_llds"]
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that is due, with the alert that asked for it."""

    action: Action
    alert: AlertNotice

    @property
    def reason(self) -> str:
        """Say why, for logs and files."""
        return f"{self.alert.severity} {self.alert.kind} since step {self.alert.opened_step}: {self.alert.summary}"


class ActionPolicy:
    """Maps alerts to actions; in a dry run, which is the default, it only says what it would do.

    The rule for the alert's kind wins over the one for its severity. Each alert is acted on once per severity.

    Args:
        rules: Action by kind (such as ``"likelihood_drift"``) or by severity (``"info"``, ``"warning"``,
            ``"critical"``). ``notify`` logs, ``checkpoint`` saves, ``skip_update`` leaves the next update out,
            ``stop`` ends training, ``enable_llds`` turns the regulariser of an LLDSGRPOTrainer on.
        dry_run: Only log what would be done.

    Raises:
        ConfigurationError: If an action is unknown.
    """

    def __init__(self, rules: Mapping[str, Action], *, dry_run: bool = True) -> None:
        for name, action in rules.items():
            if action not in get_args(Action):
                raise ConfigurationError(f"action for {name!r} must be one of {get_args(Action)}, got {action!r}")
        self._rules = dict(rules)
        self.dry_run = dry_run
        self._due: deque[Decision] = deque()
        self._seen: set[tuple[str, str]] = set()

    def take(self, alert: AlertNotice) -> None:
        """Take an alert in; give this to ``on_alert``."""
        action = self._rules.get(alert.kind, self._rules.get(alert.severity))
        if action is None or (alert.id, alert.severity) in self._seen:
            return
        self._seen.add((alert.id, alert.severity))
        decision = Decision(action, alert)
        logger.warning("rlvitals: %s%s, because of %s", "would " if self.dry_run else "", action, decision.reason)
        if not self.dry_run:
            self._due.append(decision)

    def due(self) -> list[Decision]:
        """Give the decisions made since the last call; none in a dry run."""
        decisions = []
        while self._due:
            decisions.append(self._due.popleft())
        return decisions
