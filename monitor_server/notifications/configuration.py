"""The file of channels and routes, read strictly: every problem is named with its place, and no secret is shown."""

import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from monitor_server.detection.protocol import Severity
from monitor_server.errors import StartupError
from monitor_server.printable import printable

__all__ = [
    "AppriseChannel",
    "Channel",
    "Escalation",
    "Grouping",
    "Limits",
    "NotificationFile",
    "Route",
    "WebhookChannel",
    "load_notifications",
]

LONGEST_FILE = 1024 * 1024
SHORTEST_SECRET = 16
HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_FIELDS = {"url", "secret"}

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AppriseChannel(_Table):
    """A service that Apprise reaches by one URL, such as ``slack://...`` or ``mailto://...``."""

    type: Literal["apprise"] = "apprise"
    url: SecretStr
    format: Literal["text", "markdown"] = "text"

    @property
    def shown(self) -> str:
        """What may be shown of the URL: its scheme."""
        return f"{printable(self.url.get_secret_value().partition('://')[0], longest=20)}://..."

    @field_validator("url")
    @classmethod
    def _has_scheme(cls, url: SecretStr) -> SecretStr:
        if "://" not in url.get_secret_value():
            raise ValueError("must be a URL of Apprise, such as slack://... (it is not shown)")
        return url


class WebhookChannel(_Table):
    """An HTTP address that receives signed JSON."""

    type: Literal["webhook"]
    url: SecretStr
    secret: SecretStr

    @property
    def shown(self) -> str:
        """What may be shown of the URL: scheme, host and port."""
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.scheme}://{printable(parts.netloc.rpartition('@')[2], longest=100)}/..."

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        try:
            parts = urlsplit(text)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable or not text.isascii() or not text.isprintable() or " " in text or "@" in parts.netloc:
            raise ValueError("must be an http or https URL without a user (it is not shown)")
        return url

    @field_validator("secret")
    @classmethod
    def _is_long(cls, secret: SecretStr) -> SecretStr:
        if len(secret.get_secret_value()) < SHORTEST_SECRET:
            raise ValueError(f"must have at least {SHORTEST_SECRET} characters (it is not shown)")
        return secret


Channel = AppriseChannel | WebhookChannel


class Escalation(_Table):
    """Channels that are notified where nobody has acknowledged an alert so many minutes after it opened."""

    after_minutes: Annotated[float, Field(gt=0, le=10_080)]
    channels: Annotated[list[Name], Field(min_length=1)]


class Route(_Table):
    """Which alerts go to which channels; what is left out matches everything."""

    channels: Annotated[list[Name], Field(min_length=1)]
    projects: list[str] = []
    kinds: list[str] = []
    severity: Literal["info", "warning", "critical"] = "warning"
    hours: str | None = None
    days: list[Day] = []
    time_zone: str = "UTC"
    resolved: bool = True
    escalate: list[Escalation] = []

    @property
    def rank(self) -> int:
        """The least severity that matches, as a rank."""
        return Severity(self.severity).rank

    @property
    def between(self) -> tuple[time, time] | None:
        """The first minute of the hours, and the minute after the last; None for all day."""
        match = None if self.hours is None else HOURS.fullmatch(self.hours)
        if match is None:
            return None
        begin, begin_minute, end, end_minute = map(int, match.groups())
        return time(begin, begin_minute), time(end % 24, end_minute)

    @field_validator("hours")
    @classmethod
    def _are_hours(cls, hours: str | None) -> str | None:
        match = None if hours is None else HOURS.fullmatch(hours)
        if hours is not None and (match is None or (match[3] == "24" and match[4] != "00")):
            raise ValueError('must look like "08:00-18:00"')
        return hours

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError) as error:
            raise ValueError('must be the name of a time zone, such as "Europe/Berlin"') from error
        return name


class Grouping(_Table):
    """How long alerts are gathered into one message."""

    wait_seconds: Annotated[float, Field(ge=0, le=60)] = 0.5
    window_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0


class Limits(_Table):
    """How many messages a channel gets, and how long a failed one is tried again."""

    messages_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 60
    give_up_hours: Annotated[float, Field(gt=0, le=168)] = 24.0


class Fallback(_Table):
    """The channel that receives the alerts of one that has failed for so long."""

    channel: Name
    after_minutes: Annotated[float, Field(ge=0, le=1_440)] = 5.0


class NotificationFile(_Table):
    """All of the file."""

    version: Literal[1]
    match: Literal["first", "all"] = "first"
    channels: Annotated[dict[Name, Annotated[Channel, Field(discriminator="type")]], Field(min_length=1, max_length=32)]
    routes: Annotated[list[Route], Field(min_length=1, max_length=1_000)]
    grouping: Grouping = Grouping()
    limits: Limits = Limits()
    fallback: Fallback | None = None

    @model_validator(mode="after")
    def _channels_exist(self) -> "NotificationFile":
        for place, name in self._named_channels():
            if name not in self.channels:
                known = ", ".join(sorted(self.channels))
                raise ValueError(f"{place} must be the name of a channel ({known}), got {name!r}")
        return self

    def _named_channels(self) -> Iterator[tuple[str, str]]:
        for number, route in enumerate(self.routes):
            for place, name in enumerate(route.channels):
                yield f"routes[{number}].channels[{place}]", name
            for level, escalation in enumerate(route.escalate):
                for place, name in enumerate(escalation.channels):
                    yield f"routes[{number}].escalate[{level}].channels[{place}]", name
        if self.fallback is not None:
            yield "fallback.channel", self.fallback.channel


def load_notifications(path: Path, *, variable: Callable[[str], str | None]) -> NotificationFile:
    """Read the file of channels and routes.

    Args:
        path: A TOML file.
        variable: Returns an environment variable, for ``${NAME}`` in texts of the file.

    Raises:
        StartupError: If the file cannot be used, with the place and what must hold. Secrets are not shown.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StartupError(f"RLVITALS_NOTIFICATIONS: {path} cannot be read: {error.strerror}") from error
    if len(raw) > LONGEST_FILE:
        raise StartupError(f"RLVITALS_NOTIFICATIONS: {path} must be smaller than 1 MiB, got {len(raw)} bytes")
    try:
        document = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"RLVITALS_NOTIFICATIONS: {path} is no TOML: {printable(error, longest=300)}") from None
    problems: list[str] = []
    document = _resolved(document, path, variable, problems)
    if not problems:
        try:
            return NotificationFile.model_validate(document, strict=True)
        except ValidationError as error:
            # The error holds the input, and with it the secrets: it is not chained.
            problems = [_problem(each) for each in error.errors(include_url=False)]
    raise StartupError(f"RLVITALS_NOTIFICATIONS: {path}: {'; '.join(problems[:5])}; see docs/notifications.md")


def _resolved(
    document: dict[str, Any], path: Path, variable: Callable[[str], str | None], problems: list[str]
) -> dict[str, Any]:
    """Return the document with the secrets of its channels in place: from ``${NAME}``, or from a file beside it."""
    channels = document.get("channels")
    if not isinstance(channels, dict):
        return document
    tables = {
        name: _with_secrets(str(name), table, path, variable, problems) if isinstance(table, dict) else table
        for name, table in channels.items()
    }
    return document | {"channels": tables}


def _with_secrets(
    name: str, given: dict[str, Any], path: Path, variable: Callable[[str], str | None], problems: list[str]
) -> dict[str, Any]:
    table = {"type": "apprise"} | given
    for field in sorted(SECRET_FIELDS):
        place = f"channels.{printable(name, longest=40)}.{field}"
        file = table.pop(f"{field}_file", None)
        if file is not None and field in table:
            problems.append(f"{place} and {field}_file must not both be set")
        elif isinstance(file, str):
            try:
                table[field] = (path.parent / file).read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no text"
                problems.append(f"{place}_file must be a readable file, got {file!r}: {reason}")
        elif file is not None:
            problems.append(f"{place}_file must be a text, got {printable(file, longest=100)}")
        elif isinstance(table.get(field), str):
            table[field] = _filled(str(table[field]), place, variable, problems)
    return table


def _filled(text: str, place: str, variable: Callable[[str], str | None], problems: list[str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = variable(match[1])
        if not found:
            problems.append(f"{place} names ${{{match[1]}}}, which must be set in the environment")
        return found or ""

    return PLACEHOLDER.sub(value, text)


def _problem(error: ErrorDetails) -> str:
    # Pydantic puts the tag of a union into the place.
    location = [part for part in error["loc"] if part not in ("apprise", "webhook", "[key]")]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part, longest=60)}" for part in location)
    place = place.removeprefix(".")
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        message = str(context["error"])
        if not place:
            return message
    elif kind == "extra_forbidden":
        return f"{place} is not known; remove it, or correct its name"
    elif kind == "missing":
        return f"{place} must be set"
    elif kind in ("literal_error", "enum"):
        message = f"must be {context['expected']}"
    elif kind == "union_tag_invalid":
        place, message = f"{place}.type", f"must be {context['expected_tags']}"
    else:
        message = f"must hold: {error['msg']}"
    given = error["input"]
    is_shown = not SECRET_FIELDS & {str(part) for part in location} and isinstance(given, str | int | float | bool)
    return f"{place} {message}" + (f", got {printable(repr(given), longest=100)}" if is_shown else "")
