"""The settings of a sign-in by OpenID Connect, checked at the start, and the permissions of a person's groups."""

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from monitor_server.access.callers import Scope
from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.errors import StartupError
from monitor_server.settings import Settings

__all__ = ["CALLBACK", "GroupRule", "OidcConfiguration", "is_safe_address"]

CALLBACK: Final = "/api/v1/session/oidc/callback"
RULE: Final = "RLVITALS_OIDC_GROUPS must be rules such as team=operate or team=read:project, separated by semicolons"
SIGN_IN_SCOPES: Final = (Scope.READ, Scope.OPERATE, Scope.ADMIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """The permission of a group's members; ``project`` is the only one that they may access, or None for all."""

    group: str
    scope: Scope
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfiguration:
    """One provider, and the data for the requests to it.

    Attributes:
        issuer: The provider's own address, as in its tokens.
        name: The name of the provider on the button of the sign-in page.
        client_id: The name under which the provider knows this collector.
        client_secret: The secret that goes with it.
        redirect_uri: The address to which the provider sends the browser back.
        scopes: The scopes that are requested from the provider, separated by blanks.
        name_claim: The claim whose text names a person.
        groups_claim: The claim that lists a person's groups.
        rules: The permissions of groups; the first match applies.
    """

    issuer: str
    name: str
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str
    scopes: str
    name_claim: str
    groups_claim: str
    rules: tuple[GroupRule, ...]

    @classmethod
    def of(cls, settings: Settings) -> "OidcConfiguration | None":
        """Return the configuration of the settings, or None if no sign-in by OpenID Connect is set up.

        Raises:
            StartupError: If a setting is missing or cannot be used.
        """
        if not settings.oidc_issuer:
            if settings.oidc_client_id or settings.oidc_groups:
                raise StartupError(
                    "RLVITALS_OIDC_CLIENT_ID and RLVITALS_OIDC_GROUPS need RLVITALS_OIDC_ISSUER as well; without it "
                    "nobody signs in (docs/sign-in.md)"
                )
            return None
        if not is_safe_address(settings.oidc_issuer):
            raise StartupError(
                f"RLVITALS_OIDC_ISSUER must begin with https:// (http:// only on the loopback), got "
                f"{settings.oidc_issuer!r}"
            )
        if not settings.oidc_client_id or settings.oidc_client_secret_file is None or not settings.oidc_groups:
            raise StartupError(
                "RLVITALS_OIDC_ISSUER needs RLVITALS_OIDC_CLIENT_ID, RLVITALS_OIDC_CLIENT_SECRET_FILE and "
                "RLVITALS_OIDC_GROUPS as well; see docs/sign-in.md"
            )
        file = settings.oidc_client_secret_file
        try:
            secret = read_bounded(file).decode().strip()
        except UnusableFileError as error:
            raise StartupError(f"RLVITALS_OIDC_CLIENT_SECRET_FILE: {error}") from error
        except UnicodeDecodeError:
            raise StartupError(f"RLVITALS_OIDC_CLIENT_SECRET_FILE: {file} must hold text (it is not shown)") from None
        if not secret:
            raise StartupError(
                f"RLVITALS_OIDC_CLIENT_SECRET_FILE: {file} must hold the client's secret, and it is empty"
            )
        rules = tuple(_read_rule(rule) for rule in settings.oidc_groups.split(";") if rule.strip())
        if not rules:
            raise StartupError(f"{RULE}; got none in {settings.oidc_groups!r}")
        return cls(
            issuer=settings.oidc_issuer,
            name=settings.oidc_name,
            client_id=settings.oidc_client_id,
            client_secret=secret,
            redirect_uri=settings.link_url + CALLBACK,
            scopes=settings.oidc_scopes,
            name_claim=settings.oidc_name_claim,
            groups_claim=settings.oidc_groups_claim,
            rules=rules,
        )

    def rule_for(self, groups: Collection[str]) -> GroupRule | None:
        """Return the first rule for one of a person's groups, or None if the person has no permission."""
        return next((rule for rule in self.rules if rule.group in groups), None)


def is_safe_address(address: str) -> bool:
    """Whether an address uses HTTPS, or HTTP on the loopback, where no other machine can listen."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    return parts.scheme == "http" and is_loopback


def _read_rule(text: str) -> GroupRule:
    """Read ``group=scope`` or ``group=scope:project``. Groups may contain an equals sign, projects a colon."""
    group, _, allowed = text.strip().rpartition("=")
    scope, colon, project = allowed.partition(":")
    group, scope, project = group.strip(), scope.strip(), project.strip()
    if not group or scope not in SIGN_IN_SCOPES or (colon and not project):
        raise StartupError(f"{RULE}, with one of the scopes {', '.join(SIGN_IN_SCOPES)}; got {text.strip()!r}")
    return GroupRule(group=group, scope=Scope(scope), project=project or None)
