"""The tables of the file of channels and routes, with their fields. Addresses and secrets are never shown."""

import re
from collections.abc import Iterator
from datetime import time
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from monitor_server.detection.protocol import Severity
from monitor_server.text_safety.printable import printable

__all__ = [
    "AppriseChannel",
    "Channel",
    "EmptyFile",
    "Escalation",
    "Fallback",
    "Grouping",
    "Limits",
    "NotificationFile",
    "Route",
    "WebhookChannel",
]

SHORTEST_SECRET = 16
APPRISE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AppriseChannel(_Table):
    """A service that Apprise reaches by one URL, such as ``slack://...`` or ``mailto://...``."""

    type: Literal["apprise"] = "apprise"
    url: SecretStr
    format: Literal["text", "markdown"] = "text"
    actions: bool = False
    picture: bool = True

    @property
    def shown(self) -> str:
        """The part of the URL that may be shown: its scheme."""
        return f"{printable(self.url.get_secret_value().partition('://')[0], longest=20)}://..."

    @field_validator("url")
    @classmethod
    def _has_scheme(cls, url: SecretStr) -> SecretStr:
        if not APPRISE_URL.fullmatch(url.get_secret_value()):
            raise ValueError("must be one URL of Apprise without spaces, such as slack://... (it is not shown)")
        return url


class WebhookChannel(_Table):
    """An HTTP address that receives signed JSON."""

    type: Literal["webhook"]
    url: SecretStr
    secret: SecretStr
    actions: bool = False

    @property
    def shown(self) -> str:
        """The part of the URL that may be shown: scheme, host and port."""
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
    """Channels that are notified if nobody has acknowledged an alert this many minutes after it opened."""

    after_minutes: Annotated[float, Field(gt=0, le=10_080)]
    channels: Annotated[list[Name], Field(min_length=1)]


class Route(_Table):
    """The alerts of a route and their channels; a field that is left out matches everything."""

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
        """The lowest severity that matches, as a rank."""
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
    """The time for which alerts are gathered into one message."""

    wait_seconds: Annotated[float, Field(ge=0, le=60)] = 0.5
    window_seconds: Annotated[float, Field(ge=0, le=86_400)] = 60.0


class Limits(_Table):
    """The number of messages that a channel may receive, and the time for which a failed one is tried again."""

    messages_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 60
    give_up_hours: Annotated[float, Field(gt=0, le=168)] = 24.0


class Fallback(_Table):
    """The channel that receives the alerts of a channel that has failed for this long."""

    channel: Name
    after_minutes: Annotated[float, Field(ge=0, le=1_440)] = 5.0


class NotificationFile(_Table):
    """The whole file."""

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
                known = ", ".join(sorted(self.channels)) or "there is none"
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


class EmptyFile(NotificationFile):
    """A document that ends notifications: it has neither channels nor routes; its other tables stay as they are."""

    channels: Annotated[dict[Name, Annotated[Channel, Field(discriminator="type")]], Field(max_length=0)] = {}
    routes: Annotated[list[Route], Field(max_length=0)] = []
