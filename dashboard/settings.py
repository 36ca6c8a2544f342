"""The settings of a dashboard that runs on its own (``python -m dashboard``)."""

import re

from pydantic import AliasChoices, Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings", "variable"]

PREFIX = "RLVITALS_DASHBOARD_"


class Settings(BaseSettings):
    """Settings of a dashboard outside the collector's process: ``RLVITALS_DASHBOARD_*`` and ``RLVITALS_API_URL``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore")

    host: str = Field(default="127.0.0.1", description="Address to listen on")
    port: int = Field(default=8601, ge=1, le=65535, description="Port to listen on")
    allowed_hosts: str = Field(
        default="",
        validation_alias=AliasChoices("RLVITALS_ALLOWED_HOSTS"),
        description="Host names that the dashboard accepts, besides IP addresses, localhost and its own name; "
        "separated by commas",
    )
    insecure: bool = Field(
        default=False,
        validation_alias=AliasChoices("RLVITALS_INSECURE"),
        description="Let other machines use a collector that needs no key",
    )
    api_url: str = Field(
        default="http://127.0.0.1:8600",
        validation_alias=AliasChoices("RLVITALS_API_URL"),
        description="The collector's address, as the dashboard reaches it",
    )
    connect_url: str = Field(
        default="",
        description="The collector's address as trainers reach it, shown on the empty page; RLVITALS_API_URL if empty",
    )

    @field_validator("api_url")
    @classmethod
    def _check_address(cls, address: str) -> str:
        if not re.fullmatch("https?://[!-~]+", address):
            raise PydanticCustomError("address", "must begin with http:// or https://, and be ASCII without blanks")
        return address


def variable(name: str) -> str:
    """Return the environment variable of a setting; an error names a setting with an alias by its variable."""
    return name if name.startswith("RLVITALS_") else PREFIX + name.upper()
