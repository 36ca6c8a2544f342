"""The health of the run as last reported by the collector: its phase, and the alerts that the user is notified of."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trainer_hooks.delivery import DropCounter
from trainer_hooks.text_safety import describe_error
from trainer_hooks.wire import ActionRequest, AlertNotice, Receipt

__all__ = ["HEALTHY_PHASES", "RunHealth"]

Notice = TypeVar("Notice")

# The limits of one process protect it from a hostile collector; no run has so many alerts, or requests of people.
MAX_ALERTS = 1_000
MAX_REQUESTS = 100
# A phase that only a newer collector knows may be a bad one, and is not among them.
HEALTHY_PHASES = ("warmup", "healthy", "stagnation")


class RunHealth:
    """Keeps the newest phase, the newest healthy step, the alerts that the user was notified of, and the requests.

    `update` is called in the exporter's thread, `advance` in the batch processor's thread.

    Args:
        attempt: The attempt of this launch.
        drops: Counts the errors of ``on_alert``.
        on_alert: Each is called once for each alert and severity, while it fires.
        on_passed: Each is called once for each alert and severity that fired and was resolved between two receipts.
        on_request: Called once for each action that a person asks for.

    Attributes:
        phase: The newest phase reported for this attempt; ``unknown`` before the first report.
        healthy_step: The newest step of this attempt at which the run was healthy; None before the first report.
        alerts: The alerts that fire, as last reported for this attempt.
    """

    def __init__(
        self,
        attempt: int,
        drops: DropCounter,
        on_alert: Sequence[Callable[[AlertNotice], object]] = (),
        *,
        on_passed: Sequence[Callable[[AlertNotice], object]] = (),
        on_request: Callable[[ActionRequest], object] = lambda _: None,
    ) -> None:
        self.phase = "unknown"
        self.healthy_step: int | None = None
        self.alerts: tuple[AlertNotice, ...] = ()
        self._attempt = attempt
        self._step: int | None = None
        self._first_step: int | None = None
        # The newest step of another process in this attempt that detection has processed.
        self._judged_before = -1
        self._drops = drops
        self._on_alert = on_alert
        self._on_passed = on_passed
        self._on_request = on_request
        self._notified: set[tuple[str, str]] = set()
        self._requested: set[str] = set()
        self._is_attempt_checked = False

    def advance(self, attempt: int, step: int) -> None:
        """Note the attempt and step of the newest record; a new attempt resets phase, healthy step and alerts."""
        if attempt != self._attempt:
            self._attempt, self._judged_before, self._first_step = attempt, -1, None
            self.phase, self.healthy_step, self.alerts = "unknown", None, ()
        self._step = step
        self._first_step = step if self._first_step is None else self._first_step

    def update(self, receipt: Receipt, attempt: int) -> None:
        """Read the receipt for a batch of an attempt, and notify the user of new alerts.

        A receipt for another attempt is ignored: its batch came from the spool, and an alert about a dead process is no
        reason to act in this process.
        """
        if attempt != self._attempt:
            return
        if not self._is_attempt_checked:
            self._check_attempt(receipt)
            self._is_attempt_checked = True
        if not self._is_about_this_process(receipt):
            return
        self.phase = receipt.phase
        self.alerts = tuple(receipt.alerts[:MAX_ALERTS])
        if receipt.judged_step is not None and receipt.phase in HEALTHY_PHASES:
            self.healthy_step = receipt.judged_step
        self._notify(receipt.alerts, self._on_alert)
        self._notify(filter(self._is_of_this_process, receipt.passed), self._on_passed)
        for request in receipt.requests:
            is_new = request.id not in self._requested
            if is_new and self._has_room("requests", len(self._requested), MAX_REQUESTS):
                self._requested.add(request.id)
                self._call(self._on_request, request)

    def _has_room(self, kind: str, taken: int, most: int) -> bool:
        """Whether this process takes one more item of a kind; a warning is logged if it does not."""
        if taken < most:
            return True
        self._drops.warn(kind, f"this process has taken {most} {kind} from the collector, and ignores all others")
        return False

    def _notify(self, alerts: Iterable[AlertNotice], listeners: Sequence[Callable[[AlertNotice], object]]) -> None:
        """Call the listeners with each alert, unless they were called with it at this severity before."""
        for alert in alerts:
            key = (alert.id, alert.severity)
            if key not in self._notified and self._has_room("alerts", len(self._notified), MAX_ALERTS):
                self._notified.add(key)
                for listener in listeners:
                    self._call(listener, alert)

    def _is_of_this_process(self, alert: AlertNotice) -> bool:
        """Whether an alert opened at a step of this process, and not of an earlier one of the same attempt."""
        first = self._first_step
        return first is not None and alert.opened_step >= first and alert.opened_step > self._judged_before

    def _call(self, listener: Callable[[Notice], object], notice: Notice) -> None:
        try:
            listener(notice)
        except BaseException as error:  # noqa: BLE001 - the user's callback, or its sys.exit(), must not end delivery
            self._drops.count("internal_errors", f"on_alert raised {type(error).__name__}: {describe_error(error)}")

    def _is_about_this_process(self, receipt: Receipt) -> bool:
        """Whether detection has processed a step of this process; an earlier process may have had the same attempt.

        The receipt of an older collector names no step and is taken to be about this process.
        """
        judged = receipt.judged_step
        if judged is not None and (self._step is None or judged > self._step):
            self._judged_before = judged
        return judged is None or judged > self._judged_before

    def _check_attempt(self, receipt: Receipt) -> None:
        """Warn if no detector processes this launch; at the first receipt only, since a rank may rewind later."""
        if receipt.newest_attempt is not None and receipt.newest_attempt > self._attempt:
            self._drops.warn(
                "attempt",
                f"NO DETECTOR SEES THIS LAUNCH: its attempt must be higher than the run's newest, "
                f"{receipt.newest_attempt}, got {self._attempt}. Its steps are only stored; start it again with "
                "RLVITALS_ATTEMPT=$(date +%s%3N), or under another name",
            )
