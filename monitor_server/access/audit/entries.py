"""Appends a change to the audit log, with its author."""

from typing import Final

from monitor_server.access.callers import Caller
from monitor_server.store.database import Store
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.audit_log import AuditEntry, detail_of_run
from monitor_server.text_safety.printable import printable

__all__ = ["LONGEST_WORDS", "change_entry", "commit_change", "detail_of_alert", "record_change"]

LONGEST_WORDS: Final = 300


def detail_of_alert(run_id: str, kind: str, words: str) -> str:
    """Return the detail of an entry about an alert: run, kind and words; it is removed with the run."""
    detail = f"{kind}: {words}" if words else kind
    return detail_of_run(run_id, printable(detail, longest=LONGEST_WORDS))


def change_entry(
    author: Caller,
    action: str,
    target: str,
    *,
    now: float,
    project: str | None = None,
    by: str = "",
    detail: str = "",
) -> AuditEntry:
    """Return the entry of a change.

    Args:
        author: The author of the change.
        action: The action, such as ``run.delete``.
        target: The id or the name of the changed object.
        now: Seconds since the epoch.
        project: The project that is changed; None if there is more than one.
        by: The name that the author gives.
        detail: Further information.
    """
    return AuditEntry(
        at=now,
        by=author.signature(by),
        key_id=author.key_id,
        project=project,
        action=action,
        target=target,
        detail=detail,
    )


def record_change(
    repositories: Repositories,
    author: Caller,
    action: str,
    target: str,
    *,
    now: float,
    project: str | None = None,
    by: str = "",
    detail: str = "",
) -> None:
    """Append a change to the audit log, in the transaction of the change; for the arguments see `change_entry`."""
    entry = change_entry(author, action, target, now=now, project=project, by=by, detail=detail)
    repositories.audit_log.add([entry])


def commit_change(store: Store, author: Caller, action: str, target: str, *, now: float, **facts: str) -> None:
    """Append a change to the audit log in a transaction of its own; ``facts`` are passed to `record_change`."""
    with store.write() as repositories:
        record_change(repositories, author, action, target, now=now, **facts)
