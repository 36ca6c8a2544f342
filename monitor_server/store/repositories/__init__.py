"""All repositories on one connection, in one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from monitor_server.errors import Unavailable
from monitor_server.store.database_state import DatabaseState, read_clock, read_state
from monitor_server.store.faults import concerns_statement
from monitor_server.store.postgresql.advisory_locks import AdvisoryLock, try_lock
from monitor_server.store.repositories.acknowledgements import Acknowledgements
from monitor_server.store.repositories.action_links import ActionLinks
from monitor_server.store.repositories.action_requests import ActionRequests
from monitor_server.store.repositories.alert_history import AlertHistory
from monitor_server.store.repositories.alerts import Alerts
from monitor_server.store.repositories.api_keys import ApiKeys
from monitor_server.store.repositories.attempts import Attempts
from monitor_server.store.repositories.audit_log import AuditLog
from monitor_server.store.repositories.detection import DetectorStates, Phases
from monitor_server.store.repositories.log.extensions import Extension
from monitor_server.store.repositories.log.records import Records
from monitor_server.store.repositories.notification_documents import NotificationDocuments
from monitor_server.store.repositories.notifications.channel_status import ChannelStatuses
from monitor_server.store.repositories.notifications.events import NotificationEvents
from monitor_server.store.repositories.notifications.messages import NotificationMessages
from monitor_server.store.repositories.notifications.redirection import NotificationRedirection
from monitor_server.store.repositories.projection_queue import ProjectionQueue
from monitor_server.store.repositories.recorded_settings import RecordedSettings
from monitor_server.store.repositories.responses import Responses
from monitor_server.store.repositories.retention.counts import RetentionCounts
from monitor_server.store.repositories.retention.deletion import Deletion
from monitor_server.store.repositories.retention.limits import RetentionLimits
from monitor_server.store.repositories.retention.record_thinning import RecordThinning
from monitor_server.store.repositories.retention.response_thinning import ResponseThinning
from monitor_server.store.repositories.retention.step_thinning import StepThinning
from monitor_server.store.repositories.rules import Rules
from monitor_server.store.repositories.run_groups import RunGroups
from monitor_server.store.repositories.run_views import RunViews
from monitor_server.store.repositories.runs import Runs
from monitor_server.store.repositories.saved_views import SavedViews
from monitor_server.store.repositories.series.compaction import Compaction
from monitor_server.store.repositories.series.reading import Series
from monitor_server.store.repositories.silences import Silences
from monitor_server.store.repositories.steps import Steps
from monitor_server.store.repositories.trainer_actions import Actions
from monitor_server.store.repositories.waiting_steps import Waiting
from monitor_server.store.schema.version import require_own_schema
from monitor_server.text_safety.printable import one_line

__all__ = ["Repositories"]


class Repositories:
    """The store's tables by subject. No method of theirs commits, except `Records.extend` if its caller allows it.

    Attributes:
        deferred: The extensions of logs that are to be written before the transaction ends. They end with it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.deferred: tuple[Extension, ...] = ()
        self.runs = Runs(connection)
        self.run_views = RunViews(connection)
        self.run_groups = RunGroups(connection)
        self.attempts = Attempts(connection)
        self.projection_queue = ProjectionQueue(connection)
        self.records = Records(connection)
        self.responses = Responses(connection)
        self.waiting = Waiting(connection)
        self.steps = Steps(connection)
        self.series = Series(connection)
        self.compaction = Compaction(connection)
        self.phases = Phases(connection)
        self.alerts = Alerts(connection)
        self.acknowledgements = Acknowledgements(connection)
        self.alert_history = AlertHistory(connection)
        self.silences = Silences(connection)
        self.rules = Rules(connection)
        self.saved_views = SavedViews(connection)
        self.actions = Actions(connection)
        self.detector_states = DetectorStates(connection)
        self.deletion = Deletion(connection)
        self.record_thinning = RecordThinning(connection)
        self.response_thinning = ResponseThinning(connection)
        self.step_thinning = StepThinning(connection)
        self.retention_counts = RetentionCounts(connection)
        self.retention_limits = RetentionLimits(connection)
        self.api_keys = ApiKeys(connection)
        self.notification_events = NotificationEvents(connection)
        self.notification_messages = NotificationMessages(connection)
        self.notification_redirection = NotificationRedirection(connection)
        self.channel_statuses = ChannelStatuses(connection)
        self.notification_documents = NotificationDocuments(connection)
        self.action_links = ActionLinks(connection)
        self.action_requests = ActionRequests(connection)
        self.audit_log = AuditLog(connection)
        self.recorded_settings = RecordedSettings(connection)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo the writes of the block, deferred ones too, and only these, if it raises.

        Raises:
            Unavailable: If the database could not write, for example because its disk is full or it is read-only.
        """
        deferred = self.deferred
        try:
            with self._connection.begin_nested():
                yield
        except BaseException as error:
            self.deferred = deferred
            if not isinstance(error, DBAPIError) or concerns_statement(error):
                raise
            raise Unavailable(f"the store cannot write: {one_line(error.orig)}; send again later") from error

    def lock_maintenance(self) -> bool:
        """Return whether this transaction may maintain the database; one collector at a time may."""
        return try_lock(self._connection, AdvisoryLock.MAINTENANCE)

    def limit_lock_waits(self, seconds: float) -> None:
        """Limit the wait of each statement of this transaction for locks of others; SQLite has no such locks."""
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(text(f"SET LOCAL lock_timeout = {int(seconds * 1000)}"))

    def require_own_schema(self) -> None:
        """Check that no other version has migrated the database, as each transaction that writes does at its end.

        Raises:
            DatabaseMigrated: If another version has.
        """
        require_own_schema(self._connection)

    def server_clock(self) -> float | None:
        """Return the clock that all collectors of the database share; None on SQLite."""
        return read_clock(self._connection)

    def database_state(self, *, free_bytes: int | None) -> DatabaseState:
        """Return the versions, the clock and the size of the database."""
        return read_state(self._connection, free_bytes=free_bytes)

    def probe(self) -> None:
        """Write a page and read it, without a change."""
        self._connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
        self._connection.execute(text("SELECT version_num FROM alembic_version")).one()
