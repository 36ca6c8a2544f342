"""A sign that the writer has begun a commit: from then on, no job joins those of the commit."""

import threading

__all__ = ["note_begun_commit"]


def note_begun_commit(store, monkeypatch):
    """Return an event that is set when the writer opens its next transaction.

    An empty queue is no such sign, because the writer looks at it once more after it has taken the first job.
    """
    has_begun, write = threading.Event(), store.write

    def note_and_write():
        if threading.current_thread().name == "rlvitals-writer":
            has_begun.set()
        return write()

    monkeypatch.setattr(store, "write", note_and_write)
    return has_begun
