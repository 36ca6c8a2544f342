"""Requests of people to the trainer: each is handed to the policy once, and answered with the next record."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, get_args

from trainer_hooks.actions import ActionPolicy
from trainer_hooks.text_safety import printable
from trainer_hooks.wire import Action, ActionOutcome, ActionReport, ActionRequest

__all__ = ["MAX_REPORTS", "RequestReceiver"]

MAX_REPORTS: Final = 50  # reports of a record; a collector refuses a record with more than 100

logger = logging.getLogger("trainer_hooks")


class RequestReceiver:
    """Hands requests to the policy, and refuses those that the policy does not take, or all if there is no policy.

    Args:
        policy: Decides; None for a trainer that was not set up to take requests.
        reports: Whether this rank answers for all of them.
    """

    def __init__(self, policy: ActionPolicy | None, *, reports: bool) -> None:
        self._policy = policy
        self._reports_here = reports
        self._reports: deque[ActionReport] = deque()

    def consider(self, request: ActionRequest) -> None:
        """Decide about a request; called in the exporter's thread."""
        refusal: str | None = "this trainer takes no requests; ActionPolicy(requests=...) lists those that it takes"
        if self._policy is not None:
            refusal = self._policy.consider_request(request)
        self._report(request, "received" if refusal is None else "refused", refusal or "")
        if refusal is not None:
            asked = printable(f"{request.by} has asked for {request.action}")
            logger.warning("rlvitals: %s, which is refused: %s", asked, refusal)

    def take_reports(self, actions: Sequence[ActionReport] = ()) -> list[ActionReport]:
        """Return the reports for the next record, and keep those beyond its limit; called in the training thread.

        Args:
            actions: Reports of this step; the answers that wait come before them.
        """
        self._reports.extend(actions)
        return [self._reports.popleft() for _ in range(min(MAX_REPORTS, len(self._reports)))]

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
