"""Actions that people have asked trainers for, and the answers."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from monitor_server.store.tables import action_requests

__all__ = ["ActionRequests", "StoredRequest"]

_REQUEST = action_requests.c
_IS_OPEN = _REQUEST.state.in_(["requested", "received"])
# Asked at every tick of every collector: built once, and answered by the index of what is not followed.
_UNFINISHED = (
    select(_REQUEST.id)
    .where(_REQUEST.followed_at.is_(None), text("state IN ('requested', 'received', 'done')"))
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """An action that somebody asks a trainer for; times are seconds since the epoch.

    Attributes:
        attempt: The attempt whose trainer is asked.
        state: A `RequestState` of `monitor_server.action_requests.requesting`.
        changed_at: Since when it has its state.
        step: The step of the trainer's answer.
        phase: The run's phase at that time.
        detail: What the trainer, or the collector, says of the state.
        followed_at: When it was written what came of it.
    """

    id: str
    run_id: str
    alert_id: str
    action: str
    attempt: int
    requested_at: float
    requested_by: str
    note: str
    expires_at: float
    state: str
    changed_at: float
    step: int | None = None
    phase: str | None = None
    detail: str = ""
    followed_at: float | None = None


class ActionRequests:
    """Reads and writes requests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, request: StoredRequest) -> None:
        """Write a new request; another one of the same run and action that waits is an `IntegrityError`."""
        self._connection.execute(insert(action_requests), asdict(request))

    def find(self, request_id: str) -> StoredRequest | None:
        """Return one request, or None."""
        return next(iter(self._read(_REQUEST.id == request_id)), None)

    def open_of_run(self, run_id: str) -> list[StoredRequest]:
        """Return the requests of a run that wait for their answer."""
        return self._read(_IS_OPEN & (_REQUEST.run_id == run_id))

    def has_unfinished(self) -> bool:
        """Whether any request waits for its answer, or was carried out and is not followed yet."""
        return self._connection.execute(_UNFINISHED).first() is not None

    def open_runs(self) -> set[str]:
        """Return the runs with a request that waits for its answer."""
        return set(self._connection.execute(select(_REQUEST.run_id).where(_IS_OPEN).distinct()).scalars())

    def unanswered(self, *, requested_until: float, received_until: float) -> list[StoredRequest]:
        """Return the requests that nobody answers any more.

        Args:
            requested_until: Those that the trainer has not reported to have, and that expired by then.
            received_until: Those that the trainer has, and that expired by then.
        """
        is_not_received = (_REQUEST.state == "requested") & (_REQUEST.expires_at <= requested_until)
        is_not_answered = (_REQUEST.state == "received") & (_REQUEST.expires_at <= received_until)
        return self._read(is_not_received | is_not_answered)

    def unfollowed(self) -> list[StoredRequest]:
        """Return the requests that were carried out, of which it is not written yet what came of them."""
        return self._read((_REQUEST.state == "done") & _REQUEST.followed_at.is_(None))

    def of_alert(self, alert_id: str, *, limit: int) -> list[StoredRequest]:
        """Return the requests about an alert, the newest first."""
        return list(reversed(self._read(_REQUEST.alert_id == alert_id)))[:limit]

    def advance(self, request: StoredRequest, *, states: Collection[str]) -> bool:
        """Write a request back if it is in one of some states, and return whether it was."""
        here = (_REQUEST.id == request.id) & _REQUEST.state.in_(states)
        return self._connection.execute(update(action_requests).where(here), asdict(request)).rowcount == 1

    def mark_followed(self, request_id: str, *, now: float) -> bool:
        """Record that it is written what came of a request; return whether this call has recorded it."""
        here = (_REQUEST.id == request_id) & _REQUEST.followed_at.is_(None)
        return self._connection.execute(update(action_requests).where(here), {"followed_at": now}).rowcount == 1

    def _read(self, condition: Any) -> list[StoredRequest]:  # noqa: ANN401 - a condition of SQLAlchemy
        query = select(action_requests).where(condition).order_by(_REQUEST.requested_at, _REQUEST.id)
        return [_request(row) for row in self._connection.execute(query).mappings()]


def _request(row: Mapping[Any, Any]) -> StoredRequest:
    return StoredRequest(**{name: row[name] for name in StoredRequest.__slots__})
