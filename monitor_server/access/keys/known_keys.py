"""The keys in memory, so that no request waits for the database to be recognised.

A thread reads all keys every second, so a change by another process takes effect after this time.
"""

import hmac
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from monitor_server.access.keys.administration import PREFIX, hash_key, key_id
from monitor_server.errors import Unavailable
from monitor_server.store.database import Store
from monitor_server.store.repositories.api_keys import StoredKey

__all__ = ["KnownKeys"]

log = logging.getLogger(__name__)

ADVICE: Final = "make one with `rlvitals keys create admin --scope admin`, or restore the database"
READ_SECONDS: Final = 1.0
USE_SECONDS: Final = 60.0  # the precision with which the last use of a key is stored


class KnownKeys:
    """All keys of the store.

    Args:
        store: The database with the keys.
        clock: Returns seconds since the epoch.
        on_changed: Called when keys were revoked, have expired, or have other permissions than before.

    Attributes:
        are_needed: Whether there ever was a key since the start. A revoked key counts: revoking the last one must not
            open the collector. Nor must a table that somebody has emptied, or that a restore has yet to fill.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float], on_changed: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_changed = on_changed
        self.are_needed = False
        self._keys: Mapping[str, StoredKey] = {}
        self._used: dict[str, float] = {}
        self._rights: Mapping[str, tuple[str, str | None]] = {}
        self._reading = threading.Lock()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._read_forever, name="rlvitals-keys", daemon=True)

    def start(self) -> None:
        """Begin to read the keys every second."""
        self._thread.start()

    def stop(self) -> None:
        """End, and write the last use of each key."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        try:
            self.save_uses(after_seconds=0.0)
        except Unavailable:
            log.warning("the last uses of keys since the last minute could not be stored")

    def read(self) -> None:
        """Read the keys at once.

        Raises:
            Unavailable: If the store does not answer.
        """
        with self._reading:
            with self._store.read() as repositories:
                read = {key.id: key for key in repositories.api_keys.all()}
            if self._keys and not read:
                log.warning("the database has no key any more, so that nobody is admitted; %s", ADVICE)
            self._keys = read
            self.are_needed = self.are_needed or bool(read)
            now = self._clock()
            rights = {key.id: (key.scope, key.project) for key in self._keys.values() if key.is_valid(now)}
            before, self._rights = self._rights, rights
        if any(rights.get(id_) != had for id_, had in before.items()):
            self._on_changed()

    def find(self, id_: str) -> StoredKey | None:
        """Return a valid key by its id."""
        key = self._keys.get(id_)
        return key if key is not None and key.is_valid(self._clock()) else None

    def recognise(self, secret: str) -> StoredKey | None:
        """Return the valid key with this secret, and note its use.

        The id is found by a part of the hash, and the whole hash is compared in constant time.
        """
        if not secret.startswith(PREFIX):
            return None
        hashed = hash_key(secret)
        key = self.find(key_id(hashed))
        if key is None or not hmac.compare_digest(key.hash, hashed):
            return None
        self.note_use(key)
        return key

    def note_use(self, key: StoredKey) -> None:
        """Note that a key is used now; this is written at most once a minute."""
        self._used[key.id] = self._clock()

    def save_uses(self, *, after_seconds: float = USE_SECONDS) -> None:
        """Write the last use of keys whose stored time is at least so many seconds older.

        Raises:
            Unavailable: If the store does not answer.
        """
        due = {
            id_: at
            for id_, at in list(self._used.items())
            if (key := self._keys.get(id_)) is not None
            and (key.last_used_at is None or at - key.last_used_at >= after_seconds)
        }
        if due:
            with self._store.write() as repositories:
                for id_, at in due.items():
                    repositories.api_keys.save_use(id_, at)

    def _read_forever(self) -> None:
        while not self._is_stopping.wait(READ_SECONDS):
            try:
                self.read()
                self.save_uses()
            except Unavailable:
                pass  # the last keys stay in force; the requests that need the store report its failure
            except Exception:
                log.exception("the keys could not be read; it is tried again in a second")
