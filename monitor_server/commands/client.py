"""HTTP requests of the commands to a collector: an answer, or one line that says what to do."""

import json
from typing import Any

import urllib3

from monitor_server.commands.errors import CommandError

__all__ = ["DEFAULT_URL", "fetch", "fetch_json"]

DEFAULT_URL = "http://127.0.0.1:8600"


def fetch_json(method: str, url: str, path: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - urllib3's own
    """Return a collector's answer in JSON; arguments and errors are those of `fetch`."""
    answer: dict[str, Any] = json.loads(fetch(method, url, path, **options))
    return answer


def fetch(method: str, url: str, path: str, **options: Any) -> bytes:  # noqa: ANN401 - urllib3's own
    """Return the body of a collector's answer.

    Args:
        method: Of HTTP.
        url: Address of the collector.
        path: Below ``/api/v1``.
        options: Of `urllib3.request`.

    Raises:
        CommandError: If the address is not valid, no collector answers, or its answer is not a success.
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
