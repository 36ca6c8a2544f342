"""Checks the numbers, counts, names and texts of a decoded record; `shapes` and `responses` check the rest."""

import functools
from collections.abc import Sequence

from monitor_server.errors import InvalidRecord, TooManySignals
from monitor_server.ingest.limits import LARGEST_TIME, LONGEST_REASON_CHARS, MAX_ACTIONS
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = [
    "MAX_CACHED_NAMES",
    "check_action_count",
    "check_actions",
    "check_data_version",
    "check_head",
    "check_signal_count",
    "check_time",
    "is_name",
    "safe_name",
]

# Trainers have a few hundred names for their signals, the same at each step.
MAX_CACHED_NAMES = 8_192
_is_clean = functools.lru_cache(maxsize=MAX_CACHED_NAMES)(wire.is_clean_name)


def check_head(record: wire.Record) -> None:
    """Refuse a step, sequence number, policy version or time that is out of range."""
    for field in ("step", "seq", "policy_version"):
        number = getattr(record, field)
        if number is not None and not 0 <= number <= wire.LARGEST_INTEGER:
            raise InvalidRecord(f"{field} must lie in 0 to 2**53, got {number}")
    check_time(record.time)


def check_time(time: float | None) -> None:
    """Refuse a time that is out of range, or NaN."""
    if time is not None and not 0 <= time <= LARGEST_TIME:  # NaN fails this comparison too
        raise InvalidRecord(f"time must lie in 0 to {LARGEST_TIME} seconds since the epoch, got {time}")


def check_data_version(version: str | None, *, max_chars: int) -> None:
    """Refuse a version of the data that is too long or not printable."""
    if version is not None and not (len(version) <= max_chars and version.isprintable()):
        raise InvalidRecord(
            f"data_version must have at most {max_chars} printable characters, got {safe_name(version)}"
        )


def check_signal_count(count: int) -> None:
    """Refuse a record with too many signals."""
    if count > wire.MAX_RECORD_SIGNALS:
        raise TooManySignals(
            f"a record must have at most {wire.MAX_RECORD_SIGNALS} signals, got {count}; send fewer names"
        )


def check_action_count(count: int) -> None:
    """Refuse a record with too many actions."""
    if count > MAX_ACTIONS:
        raise InvalidRecord(f"a record must have at most {MAX_ACTIONS} actions, got {count}")


def check_actions(reports: Sequence[wire.ActionReport], *, max_name_chars: int) -> None:
    """Refuse reports of actions whose ids, texts or forks cannot be stored."""
    check_action_count(len(reports))
    for report in reports:
        if not is_name(report.alert_id, max_chars=max_name_chars):
            raise InvalidRecord(f"an action's alert_id must be the id of an alert, got {safe_name(report.alert_id)}")
        if report.request_id is not None and not is_name(report.request_id, max_chars=max_name_chars):
            raise InvalidRecord(
                f"an action's request_id must be the id of a request, got {safe_name(report.request_id)}"
            )
        if max(len(report.reason), len(report.detail)) > LONGEST_REASON_CHARS:
            raise InvalidRecord(f"an action's reason and detail must have at most {LONGEST_REASON_CHARS} characters")
        if "\0" in report.reason or "\0" in report.detail:
            raise InvalidRecord("an action's reason and detail must not contain NUL, which PostgreSQL cannot store")
        _check_forks(report.forks, max_name_chars=max_name_chars)


def _check_forks(forks: Sequence[wire.ForkResult], *, max_name_chars: int) -> None:
    for fork in forks:
        if not is_name(fork.name, max_chars=max_name_chars):
            raise InvalidRecord(f"a fork's name must be a name, got {safe_name(fork.name)}")
        if not 0 <= fork.steps <= wire.LARGEST_INTEGER:
            raise InvalidRecord(f"a fork's steps must be from 0 to {wire.LARGEST_INTEGER}, got {fork.steps}")


def is_name(name: str, *, max_chars: int) -> bool:
    """Return whether a signal, run or project may have this name: printable, not empty, without outer blanks."""
    return len(name) <= max_chars and _is_clean(name)


def safe_name(name: str) -> str:
    """Return a name in a form that is safe in an error message."""
    return repr(printable(name, longest=40))
