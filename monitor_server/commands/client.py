"""HTTP requests of the commands to a collector: an answer, or an error in one line with the next step."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer
import urllib3

from monitor_server.commands.errors import CommandError, RequestRefusedError
from monitor_server.commands.processes import interrupted_by_sigterm
from monitor_server.configuration_files.writing import open_for_writing

__all__ = [
    "BEGINNING_BYTES",
    "DEFAULT_URL",
    "CollectorAnswer",
    "CollectorUrl",
    "authorization",
    "download",
    "fetch",
    "fetch_items",
    "fetch_json",
    "fetch_list",
    "path_part",
    "require_address",
    "trim_address",
    "url_of_environment",
]

DEFAULT_URL = "http://127.0.0.1:8600"
DOWNLOAD_SECONDS = 60.0  # between two parts of a download
PART_BYTES = 1 << 20
LONGEST_DETAIL = 2_000
BEGINNING_BYTES = 200  # shown of an answer that does not come from a collector
LONGEST_ANSWER = 64 << 20  # bytes, decoded: a thousand runs with their curves are a megabyte
URL_VARIABLE = "RLVITALS_URL"  # trainers read this variable as well


def trim_address(url: str) -> str:
    """Return an address without blanks around it, such as the end of a line of a file, and slashes at its end."""
    return url.strip().rstrip("/")


CollectorUrl = Annotated[
    str, typer.Option(envvar=URL_VARIABLE, callback=trim_address, help="Address of the collector.")
]
"""The option ``--url`` of a command that connects to a collector; its default is `DEFAULT_URL`."""


def url_of_environment() -> str | None:
    """Return the address in RLVITALS_URL, for a command that connects to a collector only if an address is given."""
    return trim_address(os.environ.get(URL_VARIABLE, "")) or None


class CollectorAnswer(dict[str, Any]):
    """An object of an answer; a missing field is an error of the collector, and not of the command."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - never returns
        """Raise a `CommandError` with the name of the missing field.

        Raises:
            CommandError: Always.
        """
        raise CommandError(
            f"the answer must have {name!r}, as that of a collector of this version has; "
            "give the address of a collector as --url, or upgrade it"
        )


def path_part(text: str) -> str:
    """Return an argument as one part of a path; bytes that are not text are sent unchanged.

    Raises:
        CommandError: If it is empty or consists of dots, which would lead to another path.
    """
    if text in {"", ".", ".."}:
        raise CommandError(
            f"an id or a name must not be empty or dots, got {text!r}; the lists of `rlvitals` show them"
        )
    return quote(text, safe="", errors="surrogateescape")


def fetch_json(
    method: str,
    url: str,
    path: str,
    *,
    is_nullable: bool = False,
    **options: Any,  # noqa: ANN401 - urllib3's own
) -> CollectorAnswer:
    """Return a collector's answer in JSON; the other arguments are those of `fetch`.

    Args:
        method: The HTTP method.
        url: Address of the collector.
        path: The path below ``/api/v1``.
        is_nullable: Whether the answer may be null, which is returned as an empty object.
        options: Options of `urllib3.request`.

    Raises:
        CommandError: As `fetch`, and if the answer is not a JSON object, for example from another program.
    """
    body = fetch(method, url, path, **options)
    try:
        answer = json.loads(body, object_hook=CollectorAnswer)
    except (ValueError, RecursionError):
        answer = body
    if answer is None and is_nullable:
        return CollectorAnswer()
    if not isinstance(answer, CollectorAnswer):
        beginning = body[:BEGINNING_BYTES].decode(errors="replace")
        raise CommandError(
            f"{url}/api/v1{path} must answer with a JSON object, got {beginning!r}; "
            "give the address of a collector as --url"
        )
    return answer


def fetch_list(url: str, path: str, fields: Mapping[str, str] | None = None) -> list[CollectorAnswer]:
    """Return the items of one part of a list of a collector; arguments and errors are those of `fetch`."""
    return _items(url, path, fetch_json("GET", url, path, fields=dict(fields or {})))


def fetch_items(url: str, path: str) -> Iterator[CollectorAnswer]:
    """Yield the items of all parts of a list of a collector; arguments and errors are those of `fetch`."""
    fields = {"limit": "100"}
    while True:
        part = fetch_json("GET", url, path, fields=fields)
        yield from _items(url, path, part)
        if part["next"] is None:
            return
        fields["cursor"] = part["next"]


def _items(url: str, path: str, part: CollectorAnswer) -> list[CollectorAnswer]:
    items = part["items"]
    if not isinstance(items, list) or not all(isinstance(item, CollectorAnswer) for item in items):
        raise CommandError(
            f"{url}/api/v1{path} must answer with a list of JSON objects; give the address of a collector as --url"
        )
    return items


def download(url: str, path: str, file: Path) -> int:
    """Write a collector's complete answer to a file, and return its size; arguments are those of `fetch`.

    A pipe or a device, such as ``/dev/stdout``, receives the answer part by part.

    Raises:
        CommandError: If no collector answers, its answer is not a success or ends early, or the file cannot be written.
    """
    require_address(url)
    size = 0
    try:
        with urllib3.PoolManager(retries=False, timeout=DOWNLOAD_SECONDS) as pool:
            answer = pool.request("GET", f"{url}/api/v1{path}", preload_content=False, headers=authorization())
            if answer.status != 200:  # noqa: PLR2004 - HTTP's number for success
                raise _refusal_of(url, path, answer, answer.read(amt=4 * LONGEST_DETAIL))
            with interrupted_by_sigterm(), open_for_writing(file) as written:
                for part in answer.stream(PART_BYTES):
                    size += written.write(part)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        remedy = "" if size else f"; {_remedy(error)}"
        message = f"the collector at {url} did not answer to the end: {error}; nothing was written{remedy}"
        raise CommandError(message) from error
    except BrokenPipeError:  # /dev/stdout was closed by its reader
        raise
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error}") from error
    return size


def fetch(method: str, url: str, path: str, **options: Any) -> bytes:  # noqa: ANN401 - urllib3's own
    """Return the body of a collector's answer.

    Args:
        method: The HTTP method.
        url: Address of the collector.
        path: The path below ``/api/v1``.
        options: Options of `urllib3.request`.

    Raises:
        CommandError: If the address is not valid, no collector answers, or its answer is not a success or longer than
            `LONGEST_ANSWER`.
    """
    require_address(url)
    options["headers"] = authorization() | dict(options.get("headers") or {})
    options = {"retries": False, "timeout": 10, "preload_content": False, **options}
    try:
        with urllib3.request(method, f"{url}/api/v1{path}", **options) as answer:
            body = answer.read(amt=LONGEST_ANSWER + 1)
    except UnicodeEncodeError as error:
        raise CommandError(f"a request to a collector must be text in UTF-8, got {error.object!r}") from error
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise CommandError(f"no collector answers at {url}: {error}; {_remedy(error)}") from error
    if answer.status != 200:  # noqa: PLR2004 - HTTP's number for success
        raise _refusal_of(url, path, answer, body)
    if len(body) > LONGEST_ANSWER:
        raise CommandError(
            f"{url}/api/v1{path} must answer with at most {LONGEST_ANSWER:,} bytes, got more; "
            "give the address of a collector as --url"
        )
    return body


def _remedy(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.SSLError):
        return "a collector speaks plain HTTP where no proxy with TLS is before it: give its address with http://"
    return "start one with `rlvitals serve`, or give its address as --url"


def require_address(url: str) -> None:
    """Require an address that trainers and commands take.

    Raises:
        CommandError: If it is not one of HTTP, or has a user or a password, which the message does not contain.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_address &= not (parts.query or parts.fragment or any(map(str.isspace, url)))  # trainers refuse these too
    except ValueError:  # the port is no number of one, or a bracket has no end
        is_address = False
    # A password would not be sent, and lines of output would show it. One with a slash is no part of `netloc`.
    if "@" in (parts.netloc if is_address else url):
        raise CommandError(
            f"--url ({URL_VARIABLE}) must have no user or password, got one before {url.rpartition('@')[2]!r}; give a "
            "key by RLVITALS_API_KEY"
        )
    if not is_address:
        raise CommandError(f"--url ({URL_VARIABLE}) must look like {DEFAULT_URL}, got {url!r}")


def authorization() -> dict[str, str]:
    """Return the header with the key from the environment variable that trainers also read.

    Raises:
        CommandError: If it cannot be a key; the message does not contain it.
    """
    key = os.environ.get("RLVITALS_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise CommandError(
            "RLVITALS_API_KEY must hold one key as `rlvitals keys create` has printed it, got other characters than "
            "letters, digits, `-` and `_`"
        )
    return {"Authorization": f"Bearer {key}"} if key else {}


def _refusal_of(url: str, path: str, answer: urllib3.BaseHTTPResponse, body: bytes) -> RequestRefusedError:
    message = f"{url}/api/v1{path} answered {answer.status}: {_detail(body)}"
    if answer.status == 401 and authorization():  # noqa: PLR2004 - HTTP's number for a missing key
        message += " (the key in RLVITALS_API_KEY was sent)"
    return RequestRefusedError(message, answer.status, answer.headers.get("Retry-After", ""))


def _detail(body: bytes) -> str:
    """Return the error message of a collector, or the beginning of an answer that does not come from one."""
    try:
        return str(json.loads(body)["detail"])[:LONGEST_DETAIL]
    except (ValueError, TypeError, KeyError, RecursionError):
        return body[:BEGINNING_BYTES].decode(errors="replace")
