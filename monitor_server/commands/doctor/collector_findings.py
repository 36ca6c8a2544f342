"""Checks a running collector over HTTP: whether it answers and is ready, its key, clock, backlog and SDKs."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import urllib3

from monitor_server.commands.client import DEFAULT_URL, CollectorAnswer, authorization, require_address
from monitor_server.commands.doctor.database_findings import check_clock, check_disk
from monitor_server.commands.doctor.findings import DoctorFinding, Level
from monitor_server.commands.errors import CommandError

__all__ = ["check_collector", "check_status"]

TIMEOUT_SECONDS = 10.0
LONGEST_ANSWER_BYTES = 1 << 20
# An idle projector reads about this many in half a minute; more is a backlog and not a short queue.
BACKLOG_RECORDS = 10_000
LATER = "later"  # the reason of batches for which there was no room or no database


def check_collector(url: str) -> Iterator[DoctorFinding]:
    """Yield the findings about the collector at an address; a value that the key may not see is not observed."""
    try:
        require_address(url)
    except CommandError as error:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="collector",
            text=str(error),
            advice="correct the address; trainers and the other commands refuse this one too",
        )
        return
    try:
        yield from _check_answers(url)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="collector",
            text=f"nothing answers at {url}: {error}",
            advice=f"start one with `rlvitals serve`, or give its address by --url (such as {DEFAULT_URL})",
        )
    except CommandError as error:
        yield DoctorFinding(level=Level.PROBLEM, about="collector", text=str(error))


def _check_answers(url: str) -> Iterator[DoctorFinding]:
    alive, _ = _get(url, "/healthz")
    if alive != 200:  # noqa: PLR2004 - HTTP's number for success
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="collector",
            text=f"{url}/healthz answered {alive}",
            advice="check that it is a collector's address; a name in it must be in RLVITALS_ALLOWED_HOSTS",
        )
        return
    yield DoctorFinding(level=Level.OK, about="collector", text=f"{url} answers")
    ready, answer = _get(url, "/readyz")
    if ready != 200:  # noqa: PLR2004
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="collector",
            text=f"it is not ready: {answer.get('detail', ready)}",
            advice="its log has the reason; what trainers send meanwhile waits on their disks",
        )
    code, status = _get(url, "/api/v1/status")
    if code != 200:  # noqa: PLR2004
        yield _not_shown(code)
        return
    yield from check_status(status)


def check_status(status: Mapping[str, Any]) -> Iterator[DoctorFinding]:
    """Yield the findings about what a collector answers at ``/api/v1/status``."""
    own = version("rlvitals")
    yield _versions(own, status["version"], status["sdk_versions"])
    yield _refused(status.get("refused_batches", {}))  # an older collector does not count them
    if status["database"] is not None and status["database"]["free_bytes"] is not None:
        yield check_disk(status["database"]["free_bytes"], status["database"]["size_bytes"])
    yield check_clock("the collector's", status["time"] - time.time())
    offset = status["clock_offset_seconds"]
    if abs(offset) > 1.0:
        yield DoctorFinding(
            level=Level.WARNING,
            about="clock",
            text=f"the collector's machine has set its clock by {-offset:,.0f} s; the collector keeps its own time",
            advice="restart the collector when the machine's clock is right",
        )
    yield _backlog(status["unprojected_records"], status["quarantined_runs"])
    if status["failing_channels"]:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="notifications",
            text=f"these channels do not get their messages: {', '.join(status['failing_channels'])}",
            advice="`rlvitals notifications list` or the log says why; `rlvitals notifications test CHANNEL` tries one",
        )
    if (problem := status.get("notifications_problem")) is not None:  # an older collector has no such field
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="notifications",
            text=f"the newest channels and routes are not in force: {problem}",
            advice="correct the file of RLVITALS_NOTIFICATIONS before the next start, or save the settings again",
        )
    if (problem := status.get("rules_file_problem")) is not None:  # an older collector has no such field
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="rules",
            text=f"the newest version of the file of RLVITALS_RULES_FILE is not in force: {problem}",
            advice="correct the file, or change the rule that is in its way (`rlvitals rules list`, docs/rules.md)",
        )
    yield _keys(status["keys"])


def _versions(own: str, collector: str, sdks: Mapping[str, int]) -> DoctorFinding:
    seen = ", ".join(f"{name or 'another client'} ({count:,} batches)" for name, count in sorted(sdks.items()))
    text = f"the collector has {collector}, this command {own}; trainers: {seen or 'none since its start'}"
    others = sorted({*sdks, own} - {collector, ""})
    if others:
        newest = max((collector, *others), key=_release)
        first = "" if newest == collector else ", trainers first"  # an older SDK waits if an answer has unknown fields
        advice = f"upgrade all to {newest}{first}: an older SDK works, but lacks newer functions"
        return DoctorFinding(level=Level.WARNING, about="versions", text=text, advice=advice)
    return DoctorFinding(level=Level.OK, about="versions", text=text)


def _refused(batches: Mapping[str, int]) -> DoctorFinding:
    named = {reason: count for reason, count in batches.items() if count and reason != LATER}
    if not named:
        later = batches.get(LATER, 0)
        put_off = f"; {later:,} were put off (503) and could be sent again" if later else ""
        return DoctorFinding(
            level=Level.OK, about="batches", text=f"none was refused for good since its start{put_off}"
        )
    shown = ", ".join(f"{reason} ({count:,})" for reason, count in named.items())
    advice = (
        "docs/runbooks/rlvitalsbatchesrefused.md explains each reason; the trainer's log has the collector's answer"
    )
    return DoctorFinding(
        level=Level.WARNING, about="batches", text=f"some were refused since its start: {shown}", advice=advice
    )


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers with which a version begins, for comparison; a text without one is the lowest."""
    numbers = re.match(r"\d{1,9}(?:\.\d{1,9}){0,3}", version)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def _backlog(unprojected: int, quarantined: int) -> DoctorFinding:
    if quarantined:
        return DoctorFinding(
            level=Level.PROBLEM,
            about="backlog",
            text=f"{quarantined} runs cannot be processed; their records are stored",
            advice="the collector's log has the reason; `rlvitals runs --reset RUN` tries one again",
        )
    text = f"{unprojected:,} stored records wait for detection"
    if unprojected > BACKLOG_RECORDS:
        advice = "alerts are late: check the collector's processor, or run a second one on PostgreSQL (docs/scaling.md)"
        return DoctorFinding(level=Level.WARNING, about="backlog", text=text, advice=advice)
    return DoctorFinding(level=Level.OK, about="backlog", text=text)


def _keys(keys: Mapping[str, Any]) -> DoctorFinding:
    if keys["expiring"]:
        return DoctorFinding(
            level=Level.WARNING,
            about="keys",
            text=f"of {keys['valid']} keys these expire within 14 days: {', '.join(keys['expiring'])}",
            advice="make new ones with `rlvitals keys create`, and revoke the old ones",
        )
    if not keys["valid"]:
        advice = "this is right on your own machine; elsewhere make a key with `rlvitals keys create` (docs/keys.md)"
        return DoctorFinding(
            level=Level.OK,
            about="keys",
            text="no key is in use: anyone who reaches the collector may do everything",
            advice=advice,
        )
    return DoctorFinding(level=Level.OK, about="keys", text=f"{keys['valid']} keys, none expires within 14 days")


def _not_shown(code: int) -> DoctorFinding:
    advice = {
        401: "set RLVITALS_API_KEY to a valid key that reads every project",
        403: "use a key with the scope read, operate or admin that is not confined to a project",
        404: "the collector is older than this command; upgrade it",
    }.get(code, "the collector's log has the reason")
    is_key_wrong = code == 401 and bool(authorization())  # noqa: PLR2004 - HTTP's number for no valid key
    return DoctorFinding(
        level=Level.PROBLEM if is_key_wrong or code >= 500 else Level.NOT_OBSERVED,  # noqa: PLR2004
        about="status",
        text="the key in RLVITALS_API_KEY is not valid" if is_key_wrong else f"the collector does not show it ({code})",
        advice=advice,
    )


def _get(url: str, path: str) -> tuple[int, CollectorAnswer]:
    address = url + path
    answer = urllib3.request(
        "GET", address, headers=authorization(), retries=False, timeout=TIMEOUT_SECONDS, preload_content=False
    )
    try:
        body = json.loads(answer.read(LONGEST_ANSWER_BYTES) or b"null", object_hook=CollectorAnswer)
    except (ValueError, RecursionError):
        body = None
    finally:
        answer.close()
    return answer.status, body if isinstance(body, CollectorAnswer) else CollectorAnswer()
