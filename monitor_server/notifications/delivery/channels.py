"""Delivers a message to a channel of any kind, and checks at the start whether the channels can be used."""

import base64
import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from monitor_server.errors import StartupError
from monitor_server.notifications.configuration.networks import Networks
from monitor_server.notifications.configuration.tables import AppriseChannel, Channel, NotificationFile, WebhookChannel
from monitor_server.notifications.delivery.apprise_reason import spell_reason
from monitor_server.notifications.delivery.incidents import event_type, incidents
from monitor_server.notifications.delivery.webhook import Cancellation, DeliveryFailed, is_refusal, post_webhook
from monitor_server.notifications.messages.wording import MAX_SHOWN, markdown, text, title

__all__ = ["CLAIM_SECONDS", "check_channels", "deliver"]

APPRISE: Final = Path(__file__).with_name("apprise_process.py")
APPRISE_SECONDS: Final = 45.0
SHORTEST_SECONDS: Final = 5.0  # if less time is left, the message is not repeated without its picture in this attempt
# Longer than the longest delivery, which includes the wait for a name server that does not answer.
CLAIM_SECONDS: Final = 90.0
STATUS: Final = re.compile(r"\berror=(\d{3})\b")  # of the answer of a service, in Apprise's log


def deliver(
    channel: Channel,
    body: bytes,
    *,
    picture: bytes | None = None,
    accepted: set[str] | None = None,
    cancellation: Cancellation,
    networks: Networks | None = None,
) -> None:
    """Deliver a message; return once the receiver has accepted it.

    Args:
        channel: The channel.
        body: From `messages.build_body`, as JSON. A repeat has the same bytes.
        picture: A PNG for services that show files; a webhook receives none. If the service does not accept the message
            with it, the message is sent once more without it.
        accepted: What recipients of a URL of Apprise have accepted before. It is left out, and what they accept now is
            added, even if the delivery is ended.
        cancellation: Ends the delivery early.
        networks: The networks that the delivery may connect to; all if None.

    Raises:
        DeliveryFailed: If it was not accepted.
    """
    message: dict[str, Any] = json.loads(body)
    if isinstance(channel, WebhookChannel):
        post_webhook(channel, message_id=message["id"], body=body, cancellation=cancellation, networks=networks)
        return
    write = markdown if channel.format == "markdown" else text
    named = min(len(message["alerts"]), MAX_SHOWN)
    given = {
        "url": channel.url.get_secret_value(),
        "title": title(message),
        # Services take texts of 1,000 to 35,000 characters, so the first text that fits is sent.
        "bodies": [
            *(
                f"{write(message, most_alerts=most)}\n\nReference: {message['id']}"
                for most in range(max(named, 1), 0, -1)
            ),
            _url(message),
        ],
        "format": channel.format,
        "type": event_type(message),
        "incidents": incidents(message),
        "picture": None if picture is None else base64.b64encode(picture).decode(),
        "networks": None if networks is None else networks.added,
    }
    held: set[str] = set() if accepted is None else accepted

    def send(seconds: float, **changed: object) -> dict[str, Any]:
        asked = given | changed | {"accepted": sorted(held)}
        found: dict[str, Any] = _run_apprise(asked, cancellation=cancellation, seconds=seconds, accepted=held)
        return found

    deadline = time.monotonic() + APPRISE_SECONDS
    answer = send(APPRISE_SECONDS)
    left = deadline - time.monotonic()
    if not answer["is_sent"] and picture is not None and left >= SHORTEST_SECONDS:
        answer = send(left, picture=None)
    if not answer["is_sent"]:
        if answer.get("is_refused"):
            raise DeliveryFailed(
                "Apprise could not deliver it: the service has an address that is not public, and in no network of "
                "RLVITALS_CHANNEL_NETWORKS"
            )
        lines = answer.get("log", ())
        reason = spell_reason(lines, channel.url.get_secret_value())
        raise DeliveryFailed(
            f"Apprise could not deliver it: {reason or answer['status']}", is_refusal=_has_only_refusals(lines)
        )


def check_channels(file: NotificationFile, *, networks: Networks | None = None) -> None:
    """Check that Apprise is installed and recognises its URLs, if the file has any.

    Args:
        file: The channels.
        networks: The networks that they may connect to; all if None.

    Raises:
        StartupError: If one of these conditions does not hold.
    """
    named = {name: channel for name, channel in file.channels.items() if isinstance(channel, AppriseChannel)}
    if not named:
        return
    if importlib.util.find_spec("apprise") is None:
        raise StartupError(f"channels.{next(iter(named))} needs Apprise; install rlvitals[notify]")
    urls = [channel.url.get_secret_value() for channel in named.values()]
    try:
        given = {"check": urls, "networks": None if networks is None else networks.added}
        known = _run_apprise(given, cancellation=Cancellation())
    except DeliveryFailed as error:
        raise StartupError(f"the channels of Apprise could not be checked: {error}") from error
    for name, is_known in zip(named, known, strict=True):
        if not is_known:
            raise StartupError(f"channels.{name}.url must be a URL that Apprise knows (it is not shown)")


def _has_only_refusals(lines: Sequence[str]) -> bool:
    """Return whether each recipient who has not accepted a message refuses what it contains."""
    statuses = [int(status) for line in lines for status in STATUS.findall(line)]
    return bool(statuses) and all(is_refusal(status) for status in statuses)


def _url(message: Mapping[str, Any]) -> str:
    """Return the address of the alert of a message, or of the dashboard; the title says the rest in few words."""
    is_only = message["counts"]["alerts"] == 1 and message["alerts"]
    return str(message["alerts"][0]["url"] if is_only else message["url"])


def _run_apprise(
    given: Mapping[str, Any],
    *,
    cancellation: Cancellation,
    seconds: float = APPRISE_SECONDS,
    accepted: set[str] | None = None,
) -> Any:  # noqa: ANN401 - JSON
    """Run Apprise in its own process; its error output may contain secrets and is not read.

    What it prints as accepted is added to ``accepted``, also if the process is ended.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program; the address goes by standard input
            [sys.executable, "-P", str(APPRISE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise DeliveryFailed(f"the process of Apprise could not be started: {error.strerror}") from None
    cancellation.attach(process.kill)
    try:
        output, _ = process.communicate(json.dumps(given).encode(), timeout=seconds)
        reason = f"the process of Apprise ended with status {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        reason = f"the service did not answer within {seconds:.0f} s"
    finally:
        cancellation.attach(None)
    whole_lines, _, _ = output.rpartition(b"\n")
    printed = [json.loads(line) for line in whole_lines.splitlines()]
    if accepted is not None:
        accepted.update(each["accepted"] for each in printed if "accepted" in each)
    if reason:
        raise DeliveryFailed(reason)
    return printed[-1]
