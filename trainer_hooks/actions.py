"""Decides what to do about an alert; the framework's callback carries it out. Depends on no framework.

Alerts arrive in the exporter's thread. The training thread reads the decisions between two steps.
"""

import difflib
import logging
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from trainer_hooks.errors import ConfigurationError
from trainer_hooks.text_safety import printable
from trainer_hooks.wire import ALERT_KINDS, Action, ActionOutcome, ActionReport, ActionRequest, AlertNotice, Severity

__all__ = ["Action", "ActionPolicy", "Decision"]

# The actions that people may ask for. `notify` and `skip_update` are of no use to a person who has read the message.
REQUESTABLE: tuple[Action, ...] = ("stop", "rollback", "checkpoint", "enable_llds")
# The lifetime of a request whose collector does not state one: older collectors keep a request for this long. It is
# also the longest lifetime that a collector can state, so that no request acts on the run hours later.
UNSTATED_SECONDS: Final = 600.0
# As many as one receipt can bring. The oldest are dropped, so that decisions that no loop reads take bounded memory.
MAX_DECISIONS: Final = 1_100
# The collector failed to read the run, which says nothing about the training: a collector with a defect would stop
# every run that it watches. Only a rule for the kind itself acts on it.
_ONLY_BY_KIND: Final = frozenset({"monitor_degraded"})
_NAMES = (*get_args(Severity), *sorted(ALERT_KINDS))

logger = logging.getLogger("trainer_hooks")


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that is due, with the alert that it is about, and the request where a person has asked for it.

    Attributes:
        action: What to do.
        alert: The alert that the action is about.
        request: The request; None where a rule demands the action.
        expires_at: The time from which the action must not be carried out any more, in monotonic seconds of this
            process; None for a decision that does not expire.
    """

    action: Action
    alert: AlertNotice
    request: ActionRequest | None = None
    expires_at: float | None = None

    @property
    def key(self) -> str:
        """A key that is the same on every rank."""
        if self.request is not None:
            return f"request {self.request.id}/{self.action}"
        return f"{self.alert.id}/{self.alert.severity}/{self.action}"

    @property
    def reason(self) -> str:
        """The reason in one printable line, for logs and files."""
        alert = self.alert
        asked = "" if self.request is None else f"requested by {self.request.by}: "
        return printable(f"{asked}{alert.severity} {alert.kind}, open since step {alert.opened_step}: {alert.summary}")

    def has_expired(self, now: float) -> bool:
        """Return whether it is too late to carry out the decision; an ``expires_at`` of NaN has passed.

        Args:
            now: Monotonic seconds of this process.
        """
        return self.expires_at is not None and not now < self.expires_at

    def is_left_behind(self, step: int) -> bool:
        """Return whether the alert opened at a step that the training has rolled back.

        A request of a person is not left behind, unless it asks for another rollback.

        Args:
            step: The step that the training makes next.
        """
        return self.alert.opened_step >= step and (self.request is None or self.action == "rollback")

    def report(self, outcome: ActionOutcome, detail: str = "") -> ActionReport:
        """Make a report of the outcome for the run's record."""
        return ActionReport(
            action=self.action,
            alert_id=self.alert.id,
            outcome=outcome,
            reason=self.reason,
            detail=detail,
            request_id=None if self.request is None else self.request.id,
        )


class ActionPolicy:
    """Maps alerts to actions. In a dry run, which is the default, it only logs what it would do.

    A rule for the alert's kind takes precedence over a rule for its severity. Rules for severities do not act on
    ``monitor_degraded``, which means that the collector itself failed. Each alert leads to one action per severity. The
    outcome of each decision is in the run's record: ``GET /api/v1/runs/{id}/actions``.

    A policy may serve several runs, one after another or at once: each monitor decides with a copy of its own.

    Args:
        rules: Action by kind (such as ``"likelihood_drift"``; docs/detection.md has them all) or by severity
            (``"info"``, ``"warning"``, ``"critical"``). ``notify`` logs, ``checkpoint`` saves, ``skip_update`` skips
            the next update, ``stop`` ends training, ``rollback`` goes back to the last healthy checkpoint (a loop of
            your own does that itself; a Trainer cannot), ``enable_llds`` turns on the regulariser of an
            LLDSGRPOTrainer.
        dry_run: Only log what would be done.
        requests: The actions that people may ask for over the collector, by a link in a notification or by its API
            (docs/actions.md); none unless given. A request for any other action is refused, and the record says so.

    Raises:
        ConfigurationError: If a kind, a severity or an action is unknown.
    """

    def __init__(self, rules: Mapping[str, Action], *, dry_run: bool = True, requests: Collection[Action] = ()) -> None:
        for name, action in rules.items():
            if name not in _NAMES:
                near = difflib.get_close_matches(str(name), _NAMES)
                raise ConfigurationError(
                    f"a rule must be for a severity, {get_args(Severity)}, or for a kind of alert that detection finds "
                    f"(docs/detection.md), got {name!r}{f'; the nearest are {near}' if near else ''}"
                )
            if action not in get_args(Action):
                raise ConfigurationError(f"action for {name!r} must be one of {get_args(Action)}, got {action!r}")
        for action in requests:
            if isinstance(requests, str) or action not in REQUESTABLE:
                raise ConfigurationError(f"requests must be some of {REQUESTABLE}, got {requests!r}")
        self._rules = dict(rules)
        self._requests = frozenset(requests)
        self.dry_run = dry_run
        self._due: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self._dry: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self._considered: deque[tuple[str, str]] = deque(maxlen=MAX_DECISIONS)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy for another run: without decisions, which are about the run of this one."""
        return vars(self) | {name: deque(maxlen=MAX_DECISIONS) for name in ("_due", "_dry", "_considered")}

    def consider(self, alert: AlertNotice) -> None:
        """Decide about an alert; called in the exporter's thread."""
        by_severity = None if alert.kind in _ONLY_BY_KIND else self._rules.get(alert.severity)
        action = self._rules.get(alert.kind, by_severity)
        if action is None or (alert.id, alert.severity) in self._considered:
            return
        self._considered.append((alert.id, alert.severity))
        decision = Decision(action, alert)
        (self._dry if self.dry_run else self._due).append(decision)
        # The last statement, because a logging handler or filter of the user may raise.
        logger.warning("rlvitals: %s%s, because of %s", "would " if self.dry_run else "", action, decision.reason)

    def consider_request(self, request: ActionRequest) -> str | None:
        """Decide about a request; called in the exporter's thread, once for each request.

        Returns:
            Why it is refused; None where a decision follows.
        """
        action = next((each for each in self._requests if each == request.action), None)
        if action is None:
            return (
                f"this trainer takes no request for {request.action!r}; ActionPolicy(requests=...) lists those it takes"
            )
        stated = UNSTATED_SECONDS if request.seconds_left is None else request.seconds_left
        seconds = min(stated, UNSTATED_SECONDS)  # in this order NaN stays NaN, which has expired
        decision = Decision(action, request.alert, request, time.monotonic() + seconds)
        (self._dry if self.dry_run else self._due).append(decision)
        logger.warning("rlvitals: %s%s, %s", "would " if self.dry_run else "", action, decision.reason)
        return None

    @property
    def actions(self) -> frozenset[Action]:
        """All actions that the rules name, and those that people may ask for."""
        return frozenset(self._rules.values()) | self._requests

    def take_due(self) -> list[Decision]:
        """Return the decisions made since the last call; none in a dry run."""
        return _drain(self._due)

    def take_foreseen(self) -> list[Decision]:
        """Return the decisions that a dry run has made since the last call."""
        return _drain(self._dry)


def _drain(decisions: deque[Decision]) -> list[Decision]:
    """Remove and return everything in a queue that another thread may be filling."""
    return [decisions.popleft() for _ in range(len(decisions))]
