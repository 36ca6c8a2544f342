"""Collectors without threads that form messages and note the results of deliveries, for tests that decide when."""

import threading

from monitor_server.access.callers import ANYBODY
from monitor_server.alerts.silencing import Silencing
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.stored import EMPTY, SavedDocument, read_saved
from monitor_server.notifications.delivery.channels import CLAIM_SECONDS
from monitor_server.notifications.delivery.webhook import DeliveryFailed
from monitor_server.notifications.delivery_results import DeliveryResults
from monitor_server.notifications.routing import Router
from monitor_server.notifications.saving import SaveRequest, save_document
from monitor_server.notifications.worker import NotificationWorker
from tests.monitor_server.notifications.receivers import SECRET
from tests.monitor_server.simulated_collectors import SimulatedCollector

__all__ = ["NotifyingCollector", "document_of", "save"]


def document_of(channels, **tables):
    """Return a document with a webhook for each channel."""
    hooks = {name: {"type": "webhook", "url": f"https://{name}.example.org/", "secret": SECRET} for name in channels}
    return {"version": 1, "channels": hooks} | tables


def save(repositories, document, *, now):
    """Save a document as the next version."""
    version = repositories.notification_documents.newest_version()
    stored = repositories.notification_documents.find(version)
    before = EMPTY if stored is None else read_saved(stored.document)
    request = SaveRequest(version=version, author=ANYBODY, by="ann", now=now, public_url="https://vitals.example")
    save_document(repositories, before, read_saved(document), request)


class NotifyingCollector:
    """What one collector does with alerts, silences and messages; a crash loses what it has in memory."""

    def __init__(self, store, engine, clock, settings):
        self.store, self._clock = store, clock
        options = {"record_transitions": Router(self._file).record}
        self.simulated = SimulatedCollector(store, engine, clock, settings, **options)
        self.silencing = Silencing(store, clock=clock, on_changed=lambda _: None, **options)
        self.restart()

    def _file(self, repositories):
        return self.documents.of(repositories)

    def restart(self):
        """Begin with nothing in memory."""
        self.simulated.restart()
        self.documents = SavedDocument(self.store, Networks())
        documents = self.documents
        self.worker = NotificationWorker(
            self.store,
            lambda: documents.file,
            refresh=documents.refresh,
            former=documents.former,
            is_newest=lambda: documents.is_newest,
            public_url="https://vitals.example",
            clock=self._clock,
        )
        self.results = DeliveryResults(
            self.store, lambda: documents.file, clock=self._clock, is_stopping=threading.Event()
        )
        self.under_way = {}  # the message of each channel, and when its delivery began

    def look(self, store=None):
        """Form messages and claim them, as the thread of notifications does; return whether this collector may."""
        self.worker.follow_file()
        with self.store.read() as repositories:
            known = [*self.documents.file.channels, *self.documents.former(repositories)]
        idle = [name for name in known if name not in self.under_way]
        with (store or self.store).write() as repositories:
            if not repositories.notification_messages.lock():
                return False
            self.worker.plan(repositories)
            now = self._clock()
            claimed = repositories.notification_messages.claim(channels=idle, now=now, until=now + CLAIM_SECONDS)
        self.under_way |= {message.channel: (message, now) for message in claimed}
        return True

    def finish(self, channel=None, *, error=None, is_refusal=False):
        """End a delivery to a channel, or all of them. Its receiver has accepted the message if there is no error."""
        for name in [channel] if channel is not None else list(self.under_way):
            message, _ = self.under_way.pop(name)
            failure = None if error is None else DeliveryFailed(error, is_refusal=is_refusal)
            self.results.record(message, failure, until=0.0)
