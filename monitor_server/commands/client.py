"""A collector asked over HTTP by a command: an answer, or one line that says what to do."""

import json
from typing import Any

import urllib3

__all__ = ["DEFAULT_URL", "CommandError", "ask", "fetch"]

DEFAULT_URL = "http://127.0.0.1:8600"


class CommandError(Exception):
    """A command cannot be done; the message is all the user needs."""


def ask(method: str, url: str, path: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - urllib3's own
    """Give a collector's answer in JSON; the rest is as in `fetch`."""
    told: dict[str, Any] = json.loads(fetch(method, url, path, **options))
    return told


def fetch(method: str, url: str, path: str, **options: Any) -> bytes:  # noqa: ANN401 - urllib3's own
    """Give the body of a collector's answer.

    Args:
        method: Of HTTP.
        url: Address of the collector.
        path: Below ``/api/v1``.
        options: Of `urllib3.request`.

    Raises:
        CommandError: If the address cannot be one, nobody answers, or the answer is no.
    """
    if not url.startswith(("http://", "https://")):
        raise CommandError(f"--url must look like {DEFAULT_URL}, got {url!r}")
    try:
        answer = urllib3.request(method, f"{url}/api/v1{path}", **{"retries": False, "timeout": 10, **options})
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise CommandError(f"no collector answers at {url}: {error}; start one with `rlvitals serve`") from error
    if answer.status != 200:  # noqa: PLR2004 - HTTP's number for success
        raise CommandError(f"{url}/api/v1{path} answered {answer.status}: {answer.data[:200].decode(errors='replace')}")
    return answer.data
