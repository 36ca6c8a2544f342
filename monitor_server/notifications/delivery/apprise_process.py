"""The program that passes one message to Apprise, in a process of its own with bounded memory.

It reads one JSON object from standard input, and writes JSON lines to standard output: each part that a recipient
accepts as soon as that happens, and then the result. From rlvitals it imports only the limits on its connections. If a
service never answers, or answers without end, this process is ended and the collector is not affected.
"""

import base64
import hashlib
import json
import logging
import logging.handlers
import mimetypes
import os
import resource
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

MEMORY_BYTES: Final = 1024 * 1024 * 1024
SERVICE_SECONDS: Final = 30.0
MOST_LINES: Final = 100
LONGEST_LINE: Final = 1_000
# Each part of a text message costs its sender, and takes seconds in which Apprise waits for the limits of the service.
MOST_PARTS: Final = 3
# Actions other than connections that a service may not cause: none may start a program or change a file.
REFUSED: Final = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir",
    "os.spawn", "os.symlink", "os.system", "os.truncate", "sqlite3.connect", "subprocess.Popen", "syslog.openlog",
    "syslog.syslog", "webbrowser.open",
})  # fmt: skip
CONNECTING: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
READABLE: Final = (sys.prefix, sys.base_prefix, "/usr/share/zoneinfo", *mimetypes.knownfiles)
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    """Check addresses (``check``), or send a message.

    A message has ``url, title, bodies, format, type, picture, incidents, accepted``. ``accepted`` is what earlier
    attempts have printed as accepted, and is not sent again. `choose_body` chooses among the bodies. The picture is a
    PNG in Base64, or null; services that take no files get the message without it. ``incidents`` are the keys and the
    types of the events that PagerDuty gets in place of the message. With ``networks`` the process is restricted:
    addresses of Apprise can name files to read, and hosts of the collector's own network.
    """
    given: dict[str, Any] = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    log = logging.handlers.BufferingHandler(MOST_LINES)
    listen(log)
    import apprise  # noqa: PLC0415 - after the memory is limited
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415

    refused: Sequence[object] = ()
    if given.get("networks") is not None:
        refused = confine(given["networks"])
    asset = apprise.AppriseAsset(
        storage_mode=apprise.common.PersistentStoreMode.MEMORY,
        service_timeout=SERVICE_SECONDS,
        allow_templates=False,
        app_id="rlvitals",
        app_desc="rlvitals",
        http_redirects=False,
        async_mode=False,
    )
    if "check" in given:
        services = [apprise.Apprise(asset=asset) for _ in given["check"]]
        # One text may contain the addresses of several services, and only the first one would be shown.
        answer: object = [
            service.add(url) and len(service) == 1 for service, url in zip(services, given["check"], strict=True)
        ]
    else:
        service = apprise.Apprise(asset=asset)
        if service.add(given["url"]):
            has_own_overflow = "overflow=" in given["url"]
            if not has_own_overflow:
                service[0].overflow_mode = apprise.OverflowMode.SPLIT
            png = given.get("picture")
            picture = None
            if png is not None:
                content = base64.b64decode(png)
                picture = AttachMemory(content, name="run.png", mimetype="image/png")  # type: ignore[no-untyped-call]
            service[0].retry = 0  # the collector itself repeats, and a retry within Apprise would not be tracked
            full = choose_body(
                given["bodies"],
                given["title"],
                service[0],
                most_parts=sys.maxsize if has_own_overflow else MOST_PARTS,
            )
            receiver: Any = service[0]
            has_incidents = takes_incidents(receiver, given["url"])
            is_sent, status = True, ""  # PagerDuty has nothing to do with a message about no incident
            for key, kind in given["incidents"] if has_incidents else [("", given["type"])]:
                is_end = has_incidents and kind == "success"  # it has no text, and would be sent for each part of one
                track(AcceptedParts(given["accepted"], incident=key))
                if has_incidents:
                    receiver.dedup = key
                result = service.notify(
                    body=given["title"] if is_end else full,
                    title=given["title"],
                    notify_type=kind,
                    body_format=given["format"],
                    attach=picture,
                )
                is_sent, status = bool(result), result.status.name
                if not is_sent:
                    break
            answer = {
                "is_sent": is_sent, "status": status, "is_refused": bool(refused),
                "log": [record.getMessage()[:LONGEST_LINE] for record in log.buffer],
            }  # fmt: skip
        else:
            answer = {"is_sent": False, "status": "the URL is not one of Apprise's"}
    print(json.dumps(answer))  # noqa: T201 - to the collector


def listen(handler: logging.Handler) -> None:
    """Send Apprise's warnings and errors to a handler, and print none; its return values state no reason."""
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("apprise")
    logger.addHandler(handler)
    logger.propagate = False


class AcceptedParts:
    """What the recipients have accepted: a part of the text or a file, each by one recipient, about one incident.

    Apprise asks it before it sends one of them, and adds what was accepted. This is printed at once: the process may be
    ended before its result.
    """

    def __init__(self, names: Iterable[str], *, incident: str = "") -> None:
        self._names = set(names)
        self._incident = incident

    def __contains__(self, slot: tuple[int | None, tuple[type, str]]) -> bool:
        return _name(slot, self._incident) in self._names

    def add(self, slot: tuple[int | None, tuple[type, str]]) -> None:
        """Note a part as accepted, and print it."""
        name = _name(slot, self._incident)
        self._names.add(name)
        print(json.dumps({"accepted": name}), flush=True)  # noqa: T201 - to the collector


def track(accepted: AcceptedParts) -> None:
    """Let Apprise leave out what was accepted: it has a tracker for its own retries, which it keeps in memory.

    A version of Apprise without this tracker sends everything again in a repeat.
    """
    from apprise.plugins import base  # noqa: PLC0415 - after the memory is limited

    tracker = getattr(base, "_delivery_tracker", None)
    if tracker is not None:
        tracker.set(accepted)


def takes_incidents(service: Any, url: str) -> bool:  # noqa: ANN401 - of Apprise
    """Return whether a service is PagerDuty, and let a success resolve its incident; the URL may say something else.

    By default Apprise opens an incident for each part of each message, also for a repeat and for the end of an alert.
    """
    if service.secure_protocol != "pagerduty" or "dedup=" in url or "action=" in url:
        return False
    service.action = "map"
    service.request_rate_per_sec = 0  # Apprise would wait 5.5 s before each further event
    return True


def _name(slot: tuple[int | None, tuple[type, str]], incident: str) -> str:
    """Return a name that is the same in every process, and shows no recipient."""
    part, (kind, key) = slot
    # The mark for a whole part is a plain object, whose text contains its place in memory.
    named = (part, kind.__name__, "" if kind is object else key, incident)
    return hashlib.sha256(repr(named).encode()).hexdigest()


def choose_body(bodies: Sequence[str], title: str, service: Any, *, most_parts: int = MOST_PARTS) -> str:  # noqa: ANN401 - of Apprise
    """Return the text for a service.

    This is the first one that fits. If none fits, it is the last but one, which Apprise divides. If that had more than
    ``most_parts``, as in a text message to a phone, it is the last one.
    """
    *full, brief = bodies
    longest = service.body_maxlen - (0 if service.title_maxlen > 0 else len(title) + 2)
    chosen = next((body for body in full if len(body) <= longest), full[-1])
    return chosen if len(chosen) <= most_parts * max(longest, 1) else brief


def confine(added: Sequence[str]) -> Sequence[object]:
    """Restrict this process from now on: it connects only to allowed addresses, and reads only its libraries.

    Python calls an audit hook before any code of the process connects, opens a file or starts a program. A hook cannot
    be removed.

    Args:
        added: Networks that are allowed beside public addresses.

    Returns:
            The hosts that were refused so far. The list grows; Apprise itself reports only a failure.
    """
    from monitor_server.notifications.configuration.networks import Networks  # noqa: PLC0415 - only where it is asked

    networks = Networks(added)
    refused: list[object] = []
    readable = tuple(os.path.realpath(path) for path in READABLE)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CONNECTING:
            # A host name would be resolved after this check, so its address could not be checked here.
            address = arguments[1]
            if not isinstance(address, tuple) or not networks.allow(address[0]):
                refused.append(address)
                raise PermissionError("this address may not be reached")
        elif event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and (flags & WRITING or not _is_below(path, readable)):
                raise PermissionError("this file may not be opened")
        elif event in REFUSED:
            raise PermissionError("a service may not do this")

    sys.addaudithook(check)
    return refused


def _is_below(path: str | bytes, folders: Sequence[str]) -> bool:
    real = os.path.realpath(os.fsdecode(path))
    return any(real == folder or real.startswith(folder + os.sep) for folder in folders)


if __name__ == "__main__":
    main()
