"""Persons from the provider, and the key that represents each of them.

Such a key is a row among the keys, with a secret that nobody has. So every rule for keys also applies to a person who
has signed in: scope, project, limits, the end of streams, the audit log, and revocation.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import KEY_BYTES, key_id, revoke_key
from monitor_server.access.keys.names import fold_name, is_reserved
from monitor_server.access.oidc.configuration import OidcConfiguration
from monitor_server.errors import SignInRefused
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.api_keys import StoredKey
from monitor_server.store.repositories.audit_log import reach_of
from monitor_server.text_safety.printable import printable

__all__ = ["Person", "end_sessions", "open_session"]

LONGEST_NAME: Final = 200
LONGEST_SUBJECT: Final = 255  # as OpenID Connect allows
SUBJECT: Final = re.compile(rf"[^\x00\ud800-\udfff]{{1,{LONGEST_SUBJECT}}}")  # text that every database can store
CREATED_BY: Final = "OpenID Connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who has signed in, with the permissions.

    Attributes:
        subject: The issuer and its own id of the person, which never changes.
        name: The name of the person in the audit log.
        scope: The permission of the person.
        project: The only project that the person may access; None for all.
        group: The group that grants the permission.
    """

    subject: str
    name: str
    scope: Scope
    project: str | None
    group: str

    @classmethod
    def of(cls, claims: Mapping[str, Any], configuration: OidcConfiguration) -> "Person":
        """Read the claims of a checked ID token.

        Raises:
            SignInRefused: If no group of the person may use this collector, if a rule for an e-mail address or its
                domain matches an unverified address, or if the person has no id.
        """
        subject = claims.get("sub")
        if not isinstance(subject, str) or not SUBJECT.fullmatch(subject):
            raise SignInRefused("invalid", f"the ID token must name a person by 1 to {LONGEST_SUBJECT} characters")
        subject = f"{configuration.issuer} {subject}"
        name = _name(claims, configuration)
        groups = _groups(claims.get(configuration.groups_claim))
        unverified = {group for group in groups if _is_unverified(group, claims, configuration)}
        rule = configuration.rule_for(groups - unverified)
        if rule is None and configuration.rule_for(unverified) is not None:
            raise SignInRefused(
                "unverified",
                f"{printable(name, longest=200)} has no permission here: the rule of RLVITALS_OIDC_GROUPS for an "
                "e-mail address or its domain needs a verified address; let the provider verify the address and send "
                "email_verified as true, or make rules for groups",
                subject=subject,
            )
        if rule is None:
            shown = printable(", ".join(sorted(groups)) or "none", longest=500)
            raise SignInRefused(
                "no_group",
                f"{printable(name, longest=200)} has no permission here: no rule of RLVITALS_OIDC_GROUPS "
                f"is for one of the groups {shown}",
                subject=subject,
            )
        return cls(
            subject=subject,
            name=name,
            scope=rule.scope,
            project=rule.project,
            group=rule.group,
        )


def open_session(repositories: Repositories, person: Person, *, until: float, now: float) -> StoredKey:
    """Create the key of a person, or renew it with the current permissions; the audit log records the sign-in.

    Args:
        repositories: An open transaction.
        person: The person who has signed in.
        until: The end of the session, in seconds since the epoch.
        now: The time, in seconds since the epoch.
    """
    repositories.api_keys.lock()  # a person has one key, and no other key has its name
    keys = [key for key in repositories.api_keys.all() if key.revoked_at is None]
    found = next((key for key in keys if key.subject == person.subject), None)
    others = {fold_name(key.name) for key in keys if key is not found}
    digest = _digest(person.subject)
    name = person.name if fold_name(person.name) not in others else f"{person.name} ({digest})"
    if found is None:
        hashed = hashlib.sha256(secrets.token_bytes(KEY_BYTES)).digest()  # the hash of a secret that nobody has
        key = StoredKey(
            id=key_id(hashed),
            name=name,
            scope=person.scope,
            project=person.project,
            hash=hashed,
            session_secret=secrets.token_bytes(KEY_BYTES),
            created_at=now,
            created_by=CREATED_BY,
            expires_at=until,
            subject=person.subject,
        )
        repositories.api_keys.add(key)
    else:
        later = max(until, found.expires_at or 0.0)
        key = replace(found, name=name, scope=person.scope, project=person.project, expires_at=later)
        repositories.api_keys.renew(key)
    author = Caller(name=name, scope=person.scope, project=person.project, key_id=key.id)
    detail = f"{person.scope}, {reach_of(person.project)}, by the group {printable(person.group, longest=200)}"
    record_change(repositories, author, "session.open", key.id, now=now, project=person.project, detail=detail)
    return key


def end_sessions(repositories: Repositories, subject: str, *, now: float) -> None:
    """End the sessions of a person from the provider who has no permission any more.

    Args:
        repositories: An open transaction.
        subject: The issuer and its own id of the person.
        now: Seconds since the epoch.
    """
    for key in repositories.api_keys.all():
        if key.subject == subject and key.is_valid(now):
            revoke_key(repositories, key.id, author=Caller(name=CREATED_BY, scope=Scope.ADMIN), now=now)


def _name(claims: Mapping[str, Any], configuration: OidcConfiguration) -> str:
    """Return the claim that names the person; if it could belong to another person, the provider's id.

    An unverified e-mail address could belong to anybody, and a reserved name could appear as the collector.
    """
    claim = configuration.name_claim
    name = claims.get(claim)
    is_verified = claim != "email" or claims.get("email_verified") is True
    is_name = isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) <= LONGEST_NAME
    if is_name and is_verified and not is_reserved(str(name)):
        return str(name).strip()
    id_ = printable(str(claims["sub"]), longest=LONGEST_NAME).strip()
    return f"person {_digest(f'{configuration.issuer} {id_}')}" if is_reserved(id_) else id_


def _digest(subject: str) -> str:
    return hashlib.sha256(subject.encode()).hexdigest()[:8]


def _is_unverified(group: str, claims: Mapping[str, Any], configuration: OidcConfiguration) -> bool:
    """Whether a group is the person's e-mail address or its domain, and the provider has not verified it."""
    if claims.get("email_verified") is True:
        return False
    email = claims.get("email")
    address = email.casefold() if isinstance(email, str) else ""
    is_address = group.casefold() in (address, address.rpartition("@")[2])
    return configuration.groups_claim == "email" or is_address


def _groups(claim: object) -> set[str]:
    if isinstance(claim, str):
        return {claim}
    return {group for group in claim if isinstance(group, str)} if isinstance(claim, list) else set()
