"""The health of the run as last reported by the collector: its phase, and the alerts that the user is notified of."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from trainer_hooks.delivery import DropCounter
from trainer_hooks.settings import REWINDS_PER_RESTART
from trainer_hooks.text_safety import describe_error
from trainer_hooks.wire import ActionRequest, AlertNotice, Receipt

__all__ = ["HEALTHY_PHASES", "RunHealth"]

Notice = TypeVar("Notice")

# The limits protect a process from a hostile collector: so many are taken from one receipt, and so many are remembered.
# They do not limit the alerts of a process, because one that flaps for a day must not hide the critical one after it.
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
        rank: The rank of this process; rank 0 alone says that a later launch has begun.
        world_size: The number of ranks of this launch.

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
        rank: int = 0,
        world_size: int = 1,
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
        self._rank = rank
        self._world_size = world_size
        # Only the keys are used, the ones seen last at the end. What a receipt repeats is therefore never forgotten.
        self._notified: dict[Hashable, None] = {}
        self._requested: dict[Hashable, None] = {}
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
        self._check_attempt(receipt)
        if not self._is_about_this_process(receipt):
            return
        self.phase = receipt.phase
        self.alerts = tuple(receipt.alerts[:MAX_ALERTS])
        if receipt.judged_step is not None and receipt.phase in HEALTHY_PHASES:
            self.healthy_step = receipt.judged_step
        if len(receipt.alerts) > MAX_ALERTS:
            self._drops.warn("alerts", f"only the first {MAX_ALERTS} of {len(receipt.alerts)} firing alerts are taken")
        self._notify(self.alerts, self._on_alert)
        passed = receipt.passed[: MAX_ALERTS - len(self.alerts)]
        self._notify(filter(self._is_of_this_process, passed), self._on_passed)
        for request in receipt.requests[:MAX_REQUESTS]:
            if _is_new(request.id, self._requested, MAX_REQUESTS):
                self._call(self._on_request, request)

    def _notify(self, alerts: Iterable[AlertNotice], listeners: Sequence[Callable[[AlertNotice], object]]) -> None:
        """Call the listeners with each alert, unless they were called with it at this severity before."""
        for alert in alerts:
            if _is_new((alert.id, alert.severity), self._notified, MAX_ALERTS):
                for listener in listeners:
                    self._call(listener, alert)

    def _is_of_this_process(self, alert: AlertNotice) -> bool:
        """Whether an alert opened at a step of this process, and not of an earlier one of the same attempt."""
        first = self._first_step
        return first is not None and alert.opened_step >= first and alert.opened_step > self._judged_before

    def _call(self, listener: Callable[[Notice], object], notice: Notice) -> None:
        try:
            result = listener(notice)
        except BaseException as error:  # noqa: BLE001 - the user's callback, or its sys.exit(), must not end delivery
            self._drops.count("internal_errors", f"on_alert raised {type(error).__name__}: {describe_error(error)}")
            return
        if inspect.iscoroutine(result):  # of a lambda or an object; `connect` refuses an async function
            result.close()
            self._drops.count("internal_errors", "on_alert must not return a coroutine, which nothing would await")

    def _is_about_this_process(self, receipt: Receipt) -> bool:
        """Whether detection has processed a step of this process; an earlier process may have had the same attempt.

        The receipt of an older collector names no step and is taken to be about this process.
        """
        judged = receipt.judged_step
        if judged is not None and (self._step is None or judged > self._step):
            self._judged_before = judged
        return judged is None or judged > self._judged_before

    def _next_launch(self) -> int:
        """Return the lowest attempt that belongs to a later launch than this one.

        The attempts between them may be those of a rank that has rewound before the others.
        """
        return self._attempt + (1 if self._world_size == 1 else REWINDS_PER_RESTART)

    def _check_attempt(self, receipt: Receipt) -> None:
        """Warn once if no detector processes this launch, from its beginning on or since a later launch has begun.

        After the first receipt, those of heartbeats do not count: a process may keep a monitor that it has left open.
        """
        newest, is_first = receipt.newest_attempt, not self._is_attempt_checked
        self._is_attempt_checked = True
        if newest is None or newest <= self._attempt:
            return
        if is_first:
            self._drops.warn(
                "attempt",
                f"NO DETECTOR SEES THIS LAUNCH: its attempt must be higher than the run's newest, "
                f"{newest}, got {self._attempt}. Its steps are only stored; start it again with "
                "RLVITALS_ATTEMPT=$(date +%s%3N), or under another name",
                once=True,
            )
        elif self._rank == 0 and receipt.accepted and newest >= self._next_launch():
            self._drops.warn(
                "attempt",
                "NO DETECTOR SEES THIS LAUNCH ANY MORE: another launch of the run, or another connect in this process, "
                f"has the higher attempt {newest}; the one of this launch is {self._attempt}. Its steps are only "
                "stored from now on; give each training a name of its own, and close a monitor before connecting again",
                once=True,
            )


def _is_new(key: Hashable, seen: dict[Hashable, None], most: int) -> bool:
    """Whether a key is not among those seen last; it is from now on, and the key seen longest ago is forgotten."""
    is_new = key not in seen
    seen.pop(key, None)
    seen[key] = None
    if len(seen) > most:
        del seen[next(iter(seen))]
    return is_new
