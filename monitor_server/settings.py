"""The collector's settings: only they and the commands read the environment.

Every setting is an environment variable ``RLVITALS_<NAME>`` and is listed in docs/configuration.md; a test checks this.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from monitor_server.durations import DAY_SECONDS

__all__ = ["Deadlines", "Settings", "environment_variable", "require_days"]

MEBIBYTE = 1024 * 1024
LARGEST = 2**53  # fits the integers of both databases, and of JavaScript


def require_days(days: float) -> float:
    """Return a limit of retention in days.

    Raises:
        PydanticCustomError: If it is not above 0. In many programs 0 means no limit; here it would remove at once.
    """
    if not days > 0:
        raise PydanticCustomError(
            "days", "must be more than 0 days, or left empty (null in JSON) to keep the data for good"
        )
    return days


DaysKept = Annotated[float, AfterValidator(require_days)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The times after which a silent run is lost, and after which it is given up.

    Attributes:
        lost_factor: A run is lost after this many of its stall deadlines without a message.
        expiry_seconds: A lost run counts as stopped this long after its last message.
    """

    lost_factor: float
    expiry_seconds: float


class _Environment(EnvSettingsSource):
    """The environment, without blanks around its values.

    A value that was read from a file often ends in a line break, and with it a URL of SQLite would name another file.

    An empty variable counts as not set, except `RLVITALS_DASHBOARD`: empty means no dashboard.
    """

    def __call__(self) -> dict[str, Any]:
        values = {name: value.strip() for name, value in super().__call__().items()}
        return {name: value for name, value in values.items() if value != "" or name == "dashboard"}


class Settings(BaseSettings):
    """Settings of one collector process; sizes are in bytes, and times in the unit with which a name ends."""

    # An infinite wait, or a longer one than the system allows, would raise an error and end the waiting thread.
    model_config = SettingsConfigDict(env_prefix="RLVITALS_", extra="ignore", frozen=True, allow_inf_nan=False)

    host: str = Field(default="127.0.0.1", description="Address to listen on; any address but loopback needs keys")
    port: int = Field(default=8600, ge=0, le=65535, description="Port to listen on; 0 takes a free one")
    allowed_hosts: str = Field(
        default="",
        description="Host names that the server accepts, besides IP addresses, localhost and its own name; "
        "separated by commas, .example.org for every name below it",
    )
    insecure: bool = Field(
        default=False, description="Need no key also if other machines reach the server: anyone can read and write"
    )
    key_files: str = Field(
        default="",
        description="Keys that the start creates if their file is missing: scope:path, separated by commas",
    )
    session_seconds: float = Field(default=43_200.0, gt=0, description="How long a sign-in to the dashboard lasts")
    trusted_header: str = Field(
        default="", description="Header in which a proxy names the user that it has signed in; empty for none"
    )
    trusted_proxies: str = Field(
        default="", description="Addresses or networks of the proxies whose header is trusted, separated by commas"
    )
    trusted_scope: Literal["read", "operate", "admin"] = Field(
        default="operate", description="Scope of the users of trusted proxies"
    )
    oidc_issuer: str = Field(
        default="", description="Address of the OpenID Connect provider at which people sign in; empty for none"
    )
    oidc_name: str = Field(
        default="OpenID Connect", min_length=1, max_length=60, description="Name of the provider on the sign-in page"
    )
    oidc_client_id: str = Field(default="", description="The collector's client id at the provider")
    oidc_client_secret_file: Path | None = Field(default=None, description="File that holds the client's secret")
    oidc_groups: str = Field(
        default="",
        description="Scopes of groups: group=scope or group=scope:project, separated by semicolons; the first "
        "rule that matches is used",
    )
    oidc_groups_claim: str = Field(default="groups", min_length=1, description="Claim that lists a person's groups")
    oidc_name_claim: str = Field(
        default="email",
        min_length=1,
        description="Claim with the name of a person in the audit log; without this claim, the claim sub is used",
    )
    oidc_scopes: str = Field(
        default="openid email profile",
        pattern=r"^(.* )?openid( .*)?$",
        description="Scopes that are requested from the provider, separated by blanks",
    )
    key_requests_per_second: int = Field(
        default=1_000,
        ge=0,
        description="Requests per second of one key, up to those of ten seconds at once; 0 for no limit",
    )
    key_bytes_per_second: int = Field(
        default=256 * MEBIBYTE,
        ge=0,
        description="Bytes of request bodies per second of one key, up to those of ten seconds at once; 0 for no limit",
    )
    database_url: str = Field(
        default="sqlite:///rlvitals.db", description="SQLAlchemy URL of the store; created if missing"
    )
    role: Literal["all", "ingest", "projector", "web"] = Field(
        default="all",
        description="Tasks of this process: ingest stores batches, projector detects, web answers readers, all does "
        "all three",
    )
    max_body_bytes: int = Field(default=32 * MEBIBYTE, ge=1, description="Largest ingest body, as sent")
    max_request_bytes: int = Field(default=MEBIBYTE, ge=1, description="Largest body of every other request")
    max_held_bytes: int = Field(
        default=256 * MEBIBYTE,
        ge=1,
        description="Bytes of request bodies in memory at the same time, without the first 64 KiB of each body; "
        "a request above the limit is answered with 503",
    )
    max_unread_bytes: int = Field(
        default=256 * MEBIBYTE,
        ge=1,
        description="Bytes of answers that clients have not read yet; above it, the connection whose answer has been "
        "unread for the longest time is closed",
    )
    max_decoded_bytes: int = Field(default=128 * MEBIBYTE, ge=1, description="Largest ingest body after decompression")
    max_records: int = Field(default=10_000, ge=1, le=30_000, description="Most records in one batch")
    max_config_bytes: int = Field(default=128 * 1024, ge=1, description="Largest configuration of a run, as JSON")
    max_world_size: int = Field(default=65_536, ge=1, description="Most ranks of one attempt of a run")
    max_step_records: int = Field(
        default=131_072, ge=1, description="Most records of one step that are merged, of all ranks together"
    )
    max_step_bytes: int = Field(
        default=32 * MEBIBYTE, ge=1, description="Most bytes of records of one step that are merged"
    )
    max_waiting_steps: int = Field(
        default=100_000,
        ge=1,
        description="Most steps of a run that wait for ranks; beyond it, the first one is complete without them",
    )
    max_signals: int = Field(
        default=500, ge=1, description="Most different signals of one run, without those that detectors read"
    )
    max_name_chars: int = Field(default=200, ge=1, description="Longest name of a signal, run or project")
    max_responses: int = Field(default=64, ge=0, description="Most sampled responses of one record, and of one step")
    max_response_bytes: int = Field(default=256 * 1024, ge=1, description="Largest sampled response")
    response_steps: int = Field(
        default=200,
        ge=1,
        description="Newest steps whose responses are all kept; responses of about as many older steps are kept too",
    )
    record_steps: int | None = Field(
        default=None, ge=1, description="Newest steps of a run whose raw records are kept; all if not set"
    )
    record_days: DaysKept | None = Field(
        default=None, description="Raw records are removed after this many days without a batch of their run"
    )
    response_days: DaysKept | None = Field(
        default=None,
        description="Sampled responses are removed after this many days without a batch of their run",
    )
    step_days: DaysKept | None = Field(
        default=None, description="Steps are thinned after this many days without a batch of their run"
    )
    thinned_steps: int = Field(
        default=1_000, ge=2, description="Most steps of a run that thinning keeps, without those around alerts"
    )
    run_days: DaysKept | None = Field(default=None, description="A run is deleted after this many days without a batch")
    audit_days: float = Field(
        default=400.0,
        gt=0,
        description="Entries of the audit log, and silences that have ended, are removed after this many days",
    )
    retention_seconds: float = Field(
        default=10.0, gt=0, le=DAY_SECONDS, description="Seconds between two searches for data that must be removed"
    )
    max_connections: int = Field(default=1_000, ge=1, description="Most connections at once")
    max_streams: int = Field(
        default=500, ge=1, description="Most event streams at once; at most half of the connections are streams"
    )
    max_streams_per_client: int = Field(
        default=100, ge=1, description="Most event streams of one key at once, or of one address if no key is sent"
    )
    idle_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=DAY_SECONDS,
        description="How long a connection may wait before it sends the head of a request",
    )
    request_timeout_seconds: float = Field(
        default=120.0,
        gt=0,
        le=DAY_SECONDS,
        description="How long a request may take from its head to the end of its body",
    )
    write_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=DAY_SECONDS,
        description="How long a client may leave an answer unread; each 16 KiB that it reads add a second",
    )
    max_waiting_batches: int = Field(
        default=1_000, ge=1, description="Batches that may wait for the writer; further ones are answered with 503"
    )
    max_waiting_bytes: int = Field(
        default=256 * MEBIBYTE,
        ge=1,
        description="Bytes of batches that may wait for the writer; further ones are answered with 503",
    )
    verdict_wait_seconds: float = Field(
        default=0.1,
        ge=0,
        le=60,
        description="How long a receipt waits for the verdict on its own batch; 0 for no wait",
    )
    step_deadline_seconds: float = Field(
        default=60.0, ge=0, description="A step whose ranks have not all reported is complete after this long"
    )
    stall_minimum_seconds: float = Field(
        default=300.0, gt=0, description="A run becomes stalled no earlier than this after its last step"
    )
    stall_factor: float = Field(
        default=5.0, gt=0, description="A run is stalled after this many times the median time between two of its steps"
    )
    lost_factor: float = Field(
        default=10.0, gt=1, description="A run is lost after this many stall deadlines without a batch"
    )
    lost_expiry_seconds: float = Field(
        default=3 * DAY_SECONDS, ge=0, description="A lost run counts as stopped after this long without a batch"
    )
    notifications: Path | None = Field(
        default=None, description="File of the channels and routes of notifications; none if not set"
    )
    channel_networks: str = Field(
        default="",
        description="Networks, besides the public internet, that channels saved in the dashboard may reach; separated "
        "by commas, such as 10.0.0.0/8",
    )
    rules_file: Path | None = Field(
        default=None, description="File of rules that are applied at the start and when it changes; none if not set"
    )
    public_url: str = Field(
        default="",
        description="Address of the dashboard in notifications; the loopback and the port if empty; with https:// "
        "browsers send cookies only by HTTPS",
    )
    link_secret_file: Path | None = Field(
        default=None,
        description="File with the secret of at least 32 bytes that signs links in notifications; if not set, a secret "
        "in the database signs them",
    )
    link_minutes: float = Field(
        default=60.0, ge=1, le=1_440, description="Minutes for which the links in a notification are valid"
    )
    calibration: Path | None = Field(
        default=None, description="File that `rlvitals calibrate` wrote; none for the built-in thresholds"
    )
    pending_steps: int = Field(
        default=0, ge=0, description="Steps for which a finding that is not critical must hold before its alert fires"
    )
    keep_firing_steps: int = Field(
        default=0,
        ge=0,
        description="Steps, by their numbers, for which an alert that is not critical is kept after it was last found",
    )
    tick_seconds: float = Field(
        default=1.0, gt=0, le=DAY_SECONDS, description="Seconds between two checks of deadlines and stalled runs"
    )
    stream_queue: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Events held for a slow subscriber before the oldest is dropped"
    )
    exposed_runs: int = Field(
        default=200, ge=0, description="Most runs on /metrics, those with the most severe alerts first"
    )
    exposed_signals: int = Field(default=100, ge=0, description="Most signals of a run on /metrics")
    dashboard: str = Field(
        default="dashboard.app:attach", description="Function that adds the dashboard; empty for none"
    )
    opentelemetry: bool = Field(
        default=False, description="Export traces and metrics by OpenTelemetry, as the variables OTEL_* set"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line to log"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="Form of the lines of the log")

    @field_validator("*")
    @classmethod
    def _check_size(cls, value: Any) -> Any:  # noqa: ANN401 - the value of any setting
        if isinstance(value, int) and value > LARGEST:
            raise PydanticCustomError("size", "must be at most 2**53")
        return value

    @field_validator("public_url")
    @classmethod
    def _check_address(cls, address: str) -> str:
        if address and not _is_site(address):
            raise PydanticCustomError(
                "address",
                "must be http:// or https:// with a host (IPv6 in brackets), in ASCII without blanks, ?, # and a user",
            )
        return address

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_others: PydanticBaseSettingsSource,
        **_named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings: arguments of the code or the command line, then the environment."""
        return init_settings, _Environment(settings_cls)

    @property
    def deadlines(self) -> Deadlines:
        """The times after which a silent run is lost, and given up."""
        return Deadlines(lost_factor=self.lost_factor, expiry_seconds=self.lost_expiry_seconds)

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the dashboard by HTTPS, so that their cookies are for HTTPS alone."""
        return self.public_url.startswith("https://")

    @property
    def link_url(self) -> str:
        """The address of the dashboard without a slash at its end, for links that people open."""
        return self.public_url.rstrip("/") or f"http://127.0.0.1:{self.port}"


def _is_site(address: str) -> bool:
    """Whether paths can be added to an address."""
    if not re.fullmatch(r"https?://[!-~]+", address) or "?" in address or "#" in address:
        return False
    try:
        parsed = urlsplit(address)
        # Everybody who receives a message would read a password in it.
        return bool(parsed.hostname) and "@" not in parsed.netloc and (parsed.port is None or parsed.port > 0)
    except ValueError:  # an IPv6 address without brackets, or a port that is no number
        return False


def environment_variable(name: str) -> str | None:
    """Return a variable that a file of settings names, or None."""
    return os.environ.get(name)
