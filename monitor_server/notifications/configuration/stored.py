"""The saved document of channels and routes that is in force: it is read again when its version has changed."""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from monitor_server.notifications.configuration.loading import (
    PLACEHOLDER,
    SECRET_FIELDS,
    UnusableDocumentError,
    read_document,
)
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import Channel, EmptyFile, NotificationFile
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.notifications.messages import FORMER
from monitor_server.text_safety.printable import printable

__all__ = ["EMPTY", "SavedDocument", "read_saved"]

log = logging.getLogger(__name__)

EMPTY: Final[NotificationFile] = EmptyFile(version=1)
"""The document in force before anybody has saved a channel: it notifies nobody."""


class SavedDocument:
    """Holds the newest document, for all threads. Every process reads the same document from the database."""

    def __init__(self, store: Store, networks: Networks) -> None:
        """Read the document in force.

        Args:
            store: The database.
            networks: The networks that its channels may connect to.
        """
        self.networks = networks
        self._store = store
        self._lock = threading.Lock()
        self._version = 0
        self._file = EMPTY
        self.problem = ""
        """The reason for which the newest version cannot be used; empty if it can."""
        self.refresh()

    @property
    def file(self) -> NotificationFile:
        """The document that was read last."""
        return self._file

    def refresh(self) -> bool:
        """Read the newest version; return False, because saving it has already recorded the change."""
        with self._store.read() as repositories:
            self.of(repositories)
        return False

    def of(self, repositories: Repositories) -> NotificationFile:
        """Return the document that is in force in a transaction.

        If this version of rlvitals cannot use the newest document, because a newer version has saved it, the previous
        document stays in force.
        """
        version = repositories.notification_documents.newest_version()
        if version == self._version:
            return self._file
        file, problem = self._newest_usable(repositories, version)
        if problem:
            log.error("version %d of the channels and routes cannot be used: %s", version, problem)
        with self._lock:
            if version > self._version:
                self._version, self._file, self.problem = version, file, problem
        return file

    @property
    def is_newest(self) -> bool:
        """Whether this is the newest document. Otherwise it may lack channels that only a newer rlvitals can use."""
        return not self.problem

    def _newest_usable(self, repositories: Repositories, newest: int) -> tuple[NotificationFile, str]:
        """Return the newest usable document, and the reason if a newer one is not usable."""
        problem = ""
        for version in range(newest, self._version, -1):
            stored = repositories.notification_documents.find(version)
            if stored is None:
                break
            try:
                return read_saved(stored.document), problem
            except UnusableDocumentError as error:
                problem = problem or printable(error, longest=500)
        # A copy, which is another file: its channels must be notified of the version that cannot be used.
        return self._file.model_copy(), problem

    def former(self, repositories: Repositories) -> Mapping[str, Channel]:
        """Read the document in force, and return the channels that must still be notified of their change.

        These channels belong to earlier versions. They have their names in the queue.
        """
        self.of(repositories)
        found: dict[str, Channel] = {}
        for queued in repositories.notification_messages.former_channels():
            name, _, version = queued.partition(FORMER)
            stored = repositories.notification_documents.find(int(version))
            channels = {} if stored is None else _channels(stored.document)
            if name in channels:
                found[queued] = channels[name]
        return found


def read_saved(document: Mapping[str, Any]) -> NotificationFile:
    """Read a document from HTTP or the store. It cannot refer to a variable or a file of the collector.

    Raises:
        UnusableDocumentError: If it cannot be used.
    """
    channels = document.get("channels")
    if channels == {} and document.get("routes") == []:
        return read_document(document, kind=EmptyFile)
    problems = [
        f"channels.{printable(name, longest=40)}.{field} must not name ${{...}}: a channel that is saved here is not "
        "filled from the environment; write the value itself"
        for name, table in (channels.items() if isinstance(channels, dict) else ())
        for field in sorted(SECRET_FIELDS)
        if isinstance(table, dict) and isinstance(table.get(field), str) and PLACEHOLDER.search(table[field])
    ]
    if problems:
        raise UnusableDocumentError(problems)
    return read_document(document)


def _channels(document: Mapping[str, Any]) -> Mapping[str, Channel]:
    try:
        return read_saved(document).channels
    except UnusableDocumentError:
        return {}
