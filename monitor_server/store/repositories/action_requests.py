"""The actions that people have requested from trainers, and the answers."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, text, update

from monitor_server.store.tables import action_requests

__all__ = ["ActionRequests", "StoredRequest"]

_REQUEST = action_requests.c
_IS_OPEN = _REQUEST.state.in_(["requested", "received"])
# Every collector runs this query at every tick. It is built once, and uses the index of the requests not yet followed.
_UNFINISHED = (
    select(_REQUEST.id)
    .where(_REQUEST.followed_at.is_(None), text("state IN ('requested', 'received', 'done')"))
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """An action that a person requests from a trainer; times are seconds since the epoch.

    Attributes:
        attempt: The attempt whose trainer receives the request.
        state: A `RequestState` of `monitor_server.action_requests.requesting`.
        changed_at: The time since which it has its state.
        step: The step of the trainer's answer.
        phase: The run's phase at that time.
        detail: The trainer's or the collector's explanation of the state.
        followed_at: The time at which the outcome was recorded.
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
        """Write a new request; raise `IntegrityError` if another one of the same run and action waits."""
        self._connection.execute(insert(action_requests), asdict(request))

    def find(self, request_id: str) -> StoredRequest | None:
        """Return one request, or None."""
        return next(iter(self._read(_REQUEST.id == request_id)), None)

    def open_of_run(self, run_id: str) -> list[StoredRequest]:
        """Return the requests of a run that wait for their answer."""
        return self._read(_IS_OPEN & (_REQUEST.run_id == run_id))

    def has_unfinished(self) -> bool:
        """Whether any request waits for its answer, or was carried out but has no recorded outcome yet."""
        return self._connection.execute(_UNFINISHED).first() is not None

    def open_runs(self) -> set[str]:
        """Return the runs with a request that waits for its answer."""
        return set(self._connection.execute(select(_REQUEST.run_id).where(_IS_OPEN).distinct()).scalars())

    def unanswered(self, *, requested_until: float, received_until: float) -> list[StoredRequest]:
        """Return the requests that no trainer will answer.

        Args:
            requested_until: Requests that no trainer has received count if they expired by then.
            received_until: Requests that a trainer has received count if they expired by then.
        """
        is_not_received = (_REQUEST.state == "requested") & (_REQUEST.expires_at <= requested_until)
        is_not_answered = (_REQUEST.state == "received") & (_REQUEST.expires_at <= received_until)
        return self._read(is_not_received | is_not_answered)

    def unfollowed(self) -> list[StoredRequest]:
        """Return the requests that were carried out and whose outcome is not recorded yet."""
        return self._read((_REQUEST.state == "done") & _REQUEST.followed_at.is_(None))

    def of_alert(self, alert_id: str, *, limit: int) -> list[StoredRequest]:
        """Return the requests about an alert, the newest first."""
        return list(reversed(self._read(_REQUEST.alert_id == alert_id)))[:limit]

    def advance(self, request: StoredRequest, *, states: Collection[str]) -> bool:
        """Write a request back if its stored state is among ``states``, and return whether it was."""
        here = (_REQUEST.id == request.id) & _REQUEST.state.in_(states)
        return self._connection.execute(update(action_requests).where(here), asdict(request)).rowcount == 1

    def mark_followed(self, request_id: str, *, now: float) -> bool:
        """Mark the outcome of a request as recorded; return whether this call did so."""
        here = (_REQUEST.id == request_id) & _REQUEST.followed_at.is_(None)
        return self._connection.execute(update(action_requests).where(here), {"followed_at": now}).rowcount == 1

    def limit_times(self, now: float) -> None:
        """Move requests that were made after ``now`` to ``now``, without a change of their duration."""
        ahead = _REQUEST.requested_at - now
        moved = {"expires_at": _REQUEST.expires_at - ahead, "requested_at": now}
        self._connection.execute(update(action_requests).where(_REQUEST.requested_at > now).values(moved))
        self._connection.execute(update(action_requests).where(_REQUEST.changed_at > now), {"changed_at": now})

    def _read(self, condition: Any) -> list[StoredRequest]:  # noqa: ANN401 - a condition of SQLAlchemy
        query = select(action_requests).where(condition).order_by(_REQUEST.requested_at, _REQUEST.id)
        return [_request(row) for row in self._connection.execute(query).mappings()]


def _request(row: Mapping[Any, Any]) -> StoredRequest:
    return StoredRequest(**{name: row[name] for name in StoredRequest.__slots__})
