"""Checks a database from this machine: whether it answers, its schema, the disk below it, and its clock."""

import time
from collections.abc import Iterator

from monitor_server.commands.doctor.detection_findings import check_detection
from monitor_server.commands.doctor.findings import DoctorFinding, Level
from monitor_server.errors import DatabaseUnusable
from monitor_server.store.address import shown_url
from monitor_server.store.database_state import DatabaseState
from monitor_server.store.operations.inspection import inspect_database
from monitor_server.store.schema.columns import name_columns
from monitor_server.store.schema.version import newest_schema

__all__ = ["check_clock", "check_database", "check_disk"]

GIBIBYTE = 1024**3
MEBIBYTE = 1024**2
# A collector writes some megabytes an hour for each run; with less space than this, a night may fill the disk.
LOW_BYTES = GIBIBYTE
FULL_BYTES = 100 * MEBIBYTE
CLOCK_SECONDS = 5.0
OLDEST_POSTGRES, NEWEST_POSTGRES = 15, 18


def check_database(url: str) -> Iterator[DoctorFinding]:
    """Yield the findings about a database and about the detectors for its runs, without creating or migrating it."""
    state = None
    try:
        state = inspect_database(url)
    except DatabaseUnusable as error:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="database",
            text=str(error),
            advice="check that it runs, and RLVITALS_DATABASE_URL or --database",
        )
    else:
        if state is None:
            yield DoctorFinding(
                level=Level.NOT_OBSERVED,
                about="database",
                text=f"there is no file {shown_url(url)}",
                advice="`rlvitals serve` creates it; set RLVITALS_DATABASE_URL or --database where it is elsewhere",
            )
        else:
            yield from _check_state(state)
    yield from check_detection(state.judged_calibration if state is not None else None)


def _check_state(state: DatabaseState) -> Iterator[DoctorFinding]:
    yield check_server(state)
    if state.waiting_commits:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="database",
            text=f"{state.waiting_commits} commits wait for a synchronous standby",
            advice="start the standby again, or take it out of synchronous_standby_names; nothing is stored meanwhile",
        )
    yield _schema(state)
    if state.free_bytes is not None:
        yield check_disk(state.free_bytes, state.size_bytes)
    if state.clock is not None:
        yield check_clock("the database's", state.clock - time.time())


def check_disk(free_bytes: int, size_bytes: int) -> DoctorFinding:
    """Return whether there is space for new data, and for a backup."""
    text = f"{_size(free_bytes)} are free, the database has {_size(size_bytes)}"
    if free_bytes < FULL_BYTES:
        advice = (
            "make space now: the collector refuses batches when it cannot write, and trainers keep them on their disks"
        )
        return DoctorFinding(level=Level.PROBLEM, about="disk", text=text, advice=advice)
    if free_bytes < max(LOW_BYTES, size_bytes):
        advice = "make space, or remove old data (docs/operations.md); a backup beside the database would not fit"
        return DoctorFinding(level=Level.WARNING, about="disk", text=text, advice=advice)
    return DoctorFinding(level=Level.OK, about="disk", text=text)


def _size(count: int) -> str:
    return f"{count / MEBIBYTE:.1f} MiB" if count < GIBIBYTE else f"{count / GIBIBYTE:.1f} GiB"


def check_clock(whose: str, ahead_seconds: float) -> DoctorFinding:
    """Return whether another clock agrees with this machine's; ``ahead_seconds`` is its lead."""
    if abs(ahead_seconds) <= CLOCK_SECONDS:
        return DoctorFinding(level=Level.OK, about="clock", text=f"{whose} clock agrees within {CLOCK_SECONDS:g} s")
    direction = "ahead of" if ahead_seconds > 0 else "behind"
    return DoctorFinding(
        level=Level.WARNING,
        about="clock",
        text=f"{whose} clock is {abs(ahead_seconds):,.0f} s {direction} this machine's",
        advice="synchronise both (NTP): keys expire and silent runs are found by the clock",
    )


def check_server(state: DatabaseState) -> DoctorFinding:
    """Return whether the version of the database was tested."""
    text = f"{state.kind} {state.server_version} answers"
    major = state.server_version.partition(".")[0]
    if state.kind == "postgresql" and major.isdigit() and not OLDEST_POSTGRES <= int(major) <= NEWEST_POSTGRES:
        advice = f"use PostgreSQL {OLDEST_POSTGRES} to {NEWEST_POSTGRES}"
        return DoctorFinding(level=Level.WARNING, about="database", text=text, advice=advice)
    return DoctorFinding(level=Level.OK, about="database", text=text)


def _schema(state: DatabaseState) -> DoctorFinding:
    newest = newest_schema()
    if missing := state.missing_columns:
        return DoctorFinding(
            level=Level.PROBLEM,
            about="schema",
            text=f"{newest}, the newest, and lacks the column {name_columns(missing)}",
            advice="no collector starts here: restore a backup that has them, or set RLVITALS_DATABASE_URL to another",
        )
    if state.schema_version == newest:
        return DoctorFinding(level=Level.OK, about="schema", text=f"{newest}, the newest")
    if state.schema_version is None:
        advice = "`rlvitals serve` makes the tables; check the address of the database if there should be runs in it"
        return DoctorFinding(
            level=Level.WARNING, about="schema", text="the database has none of our tables", advice=advice
        )
    if state.schema_version < newest:
        return DoctorFinding(
            level=Level.WARNING,
            about="schema",
            text=f"{state.schema_version}, and this version of rlvitals uses {newest}",
            advice="back it up (`rlvitals backup`); the next start of a collector of this version migrates it",
        )
    return DoctorFinding(
        level=Level.PROBLEM,
        about="schema",
        text=f"{state.schema_version}, which this version of rlvitals does not know (it knows up to {newest})",
        advice="upgrade rlvitals on this machine",
    )
