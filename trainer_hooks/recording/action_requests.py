"""Requests of people to the trainer: each is handed to the policy once, and answered with the next record."""

import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, get_args

from trainer_hooks.actions import MAX_DECISIONS, ActionPolicy
from trainer_hooks.recording.health import MAX_REQUESTS
from trainer_hooks.text_safety import printable
from trainer_hooks.wire import Action, ActionOutcome, ActionReport, ActionRequest

__all__ = ["MAX_REPORTS", "NO_ACTOR", "RequestReceiver"]

MAX_REPORTS: Final = 50  # reports of a record; a collector refuses a record with more than 100
# Reports that wait while every step is dropped: as many as one receipt can bring. The oldest are dropped.
MAX_WAITING: Final = MAX_DECISIONS + MAX_REQUESTS

NO_ACTOR: Final = (
    "nothing in this program carries out actions: train with LoopWatch, or with the callback of transformers or TRL"
)
ENDED_BEFORE: Final = "the training that it was about ended before it was carried out"

logger = logging.getLogger("trainer_hooks")


class RequestReceiver:
    """Hands requests to the policy, and refuses those that the policy does not take, or all if there is no policy.

    Args:
        policy: Decides; None for a trainer that was not set up to take requests.
        reports: Whether this rank answers for all of them.

    Attributes:
        is_acting: Whether something in this process carries out what the policy decides.
    """

    def __init__(self, policy: ActionPolicy | None, *, reports: bool) -> None:
        self._policy = policy
        self._reports_here = reports
        self._reports: deque[ActionReport] = deque(maxlen=MAX_WAITING)
        self.is_acting = False

    def begin_acting(self) -> None:
        """Refuse the decisions that an earlier training has left; called in the training thread when one begins."""
        if self.is_acting and self._policy is not None:
            left = [decision.report("refused", ENDED_BEFORE) for decision in self._policy.take_due()]
            self.add_reports(left if self._reports_here else ())
        self.is_acting = True

    def consider(self, request: ActionRequest) -> None:
        """Decide about a request; called in the exporter's thread."""
        refusal: str | None = "this trainer takes no requests; ActionPolicy(requests=...) lists those that it takes"
        if self._policy is not None:
            refusal = self._policy.consider_request(request) if self.is_acting else NO_ACTOR
        self._report(request, "received" if refusal is None else "refused", refusal or "")
        if refusal is not None:
            asked = printable(f"{request.by} has asked for {request.action}")
            logger.warning("rlvitals: %s, which is refused: %s", asked, refusal)

    def add_reports(self, reports: Sequence[ActionReport]) -> None:
        """Add reports of what the trainer did, after the answers that wait; called in the training thread."""
        self._reports.extend(reports)

    def take_reports(self) -> list[ActionReport]:
        """Return the reports for the next record, and keep those beyond its limit; called in the training thread."""
        taken: list[ActionReport] = []
        if self._reports:
            with contextlib.suppress(IndexError):  # another thread that logs may take the last one
                while len(taken) < MAX_REPORTS:
                    taken.append(self._reports.popleft())
        return taken

    def put_back(self, reports: Sequence[ActionReport]) -> None:
        """Keep the reports of a step that was dropped for the next one; called in the training thread."""
        self._reports.extendleft(reversed(reports))

    def _report(self, request: ActionRequest, outcome: ActionOutcome, detail: str) -> None:
        known: Action = next((each for each in get_args(Action) if each == request.action), "notify")
        if self._reports_here:
            reason = f"requested by {request.by}"
            self._reports.append(
                ActionReport(
                    action=known,
                    alert_id=request.alert.id,
                    outcome=outcome,
                    reason=reason,
                    detail=detail,
                    request_id=request.id,
                )
            )
