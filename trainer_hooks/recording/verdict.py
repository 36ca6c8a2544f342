"""What the collector found in the steps of this process: its phase, and the alerts that the user is told of."""

from collections.abc import Callable, Sequence

from trainer_hooks.delivery import Tally
from trainer_hooks.wire import AlertNotice, Receipt

__all__ = ["SICK_PHASES", "Verdict"]

SICK_PHASES = ("decay", "acceleration", "collapsed")


class Verdict:
    """Hears answers in the sender's thread, and in the courier's which step the process has reached.

    Args:
        attempt: The launch's.
        tally: Counts what `on_alert` raises.
        on_alert: Each called once for each alert and severity.

    Attributes:
        phase: The newest phase told of this attempt; ``unknown`` before.
        healthy_step: The newest step of this attempt at which the run was found healthy; None before.
    """

    def __init__(self, attempt: int, tally: Tally, on_alert: Sequence[Callable[[AlertNotice], object]] = ()) -> None:
        self.phase = "unknown"
        self.healthy_step: int | None = None
        self._attempt = attempt
        self._step: int | None = None
        self._judged_before = -1  # the newest step that detection took of another process in this attempt
        self._tally = tally
        self._on_alert = on_alert
        self._told: set[tuple[str, str]] = set()
        self._is_answered = False

    def reach(self, attempt: int, step: int) -> None:
        """Note the step of the newest record; with a new attempt nothing is known any more."""
        if attempt != self._attempt:
            self._attempt, self._judged_before = attempt, -1
            self.phase, self.healthy_step = "unknown", None
        self._step = step

    def hear(self, receipt: Receipt, attempt: int) -> None:
        """Take an answer to a batch of an attempt, and tell the user of alerts not told before."""
        if attempt != self._attempt:
            return  # the spool held it: what was wrong with a process that is dead is no reason to act in this one
        if not self._is_answered:
            self._check_attempt(receipt)
            self._is_answered = True
        if not self._is_judged(receipt):
            return
        self.phase = receipt.phase
        if receipt.judged_step is not None and receipt.phase not in (*SICK_PHASES, "unknown"):
            self.healthy_step = receipt.judged_step
        for alert in receipt.alerts:
            if (alert.id, alert.severity) not in self._told:
                self._told.add((alert.id, alert.severity))
                self._tell(alert)

    def _tell(self, alert: AlertNotice) -> None:
        for listener in self._on_alert:
            try:
                listener(alert)
            except Exception as error:  # noqa: BLE001 - the user's callback must not end delivery
                self._tally.count("internal_errors", f"on_alert raised {type(error).__name__}: {error}")

    def _is_judged(self, receipt: Receipt) -> bool:
        """Whether detection has taken a step of this process: one before it may have been of the same attempt.

        Collectors that name no step tell nothing of it, and are believed.
        """
        judged = receipt.judged_step
        if judged is not None and (self._step is None or judged > self._step):
            self._judged_before = judged
        return judged is None or judged > self._judged_before

    def _check_attempt(self, receipt: Receipt) -> None:
        """Say that nobody watches; at the first answer only, as later a rank may rewind before another one."""
        if receipt.newest_attempt is not None and receipt.newest_attempt > self._attempt:
            self._tally.note(
                "attempt",
                f"NO DETECTOR SEES THIS LAUNCH: its attempt must be higher than the run's newest, "
                f"{receipt.newest_attempt}, got {self._attempt}. Its steps are stored only; start it again with "
                "RLVITALS_ATTEMPT=$(date +%s%3N), or under another name",
            )
