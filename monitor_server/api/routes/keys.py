"""API keys: list, create and revoke. A key of one project may only access the keys of that project."""

import asyncio
from typing import Literal

from fastapi import APIRouter

from monitor_server.access.callers import ANYBODY, Scope
from monitor_server.access.keys.administration import create_key, revoke_key
from monitor_server.access.keys.names import is_reserved
from monitor_server.access.keys.new_keys import NewKey
from monitor_server.api.dependencies import Asking, Collector, Reading, Serving
from monitor_server.api.error_handlers import BODY_REFUSALS, CONFLICT, NOT_FOUND
from monitor_server.api.pagination import ItemList
from monitor_server.api.schemas import Schema, Time
from monitor_server.durations import DAY_SECONDS
from monitor_server.errors import KeyNameTaken, KeyRequired, ScopeTooSmall
from monitor_server.store.repositories.api_keys import StoredKey

__all__ = ["KeyItem", "router"]

router = APIRouter(prefix="/keys")


class KeyItem(Schema):
    """A key, without its secret; times are seconds since the epoch."""

    id: str
    name: str
    scope: Scope
    project: str | None
    state: Literal["active", "expired", "revoked"]
    created_at: Time
    created_by: str
    last_used_at: Time | None
    expires_at: Time | None
    revoked_at: Time | None


class CreatedKey(KeyItem):
    """A new key; ``key`` is shown in this answer and never again."""

    key: str


@router.get("")
def keys(collector: Serving, reading: Reading, asking: Asking) -> ItemList[KeyItem]:
    """List all keys, including revoked and expired ones, the oldest first."""
    now = collector.clock()
    return ItemList(items=[_item(key, now) for key in reading.api_keys.all() if asking.reaches(key.project)])


@router.post("", responses=BODY_REFUSALS | CONFLICT)
async def create(body: NewKey, collector: Serving, asking: Asking) -> CreatedKey:
    """Create a key. Only this answer contains it; its hash is stored."""
    if asking is ANYBODY:
        raise KeyRequired(
            "the first key is never made over HTTP: run `rlvitals keys create` with --database, the database of this "
            "collector, on a machine that reaches it; that needs no key"
        )
    project = body.project or asking.project
    if not asking.reaches(project):
        raise ScopeTooSmall(f"this key makes keys of the project {asking.project!r} only")
    if is_reserved(body.name):
        raise KeyNameTaken(
            f"the name {body.name!r} is reserved: in the audit log it could be read as the collector, the id of a key, "
            "or another person; choose another name, without parentheses"
        )
    now = collector.clock()
    expires_at = None if body.days is None else now + body.days * DAY_SECONDS
    secret, stored = await collector.write(
        "keys",
        lambda repositories: create_key(
            repositories,
            name=body.name,
            scope=body.scope,
            project=project,
            expires_at=expires_at,
            author=asking,
            now=now,
        ),
    )
    await asyncio.to_thread(collector.keys.read)
    return CreatedKey(**_item(stored, now).model_dump(), key=secret)


@router.delete("/{key}", responses=NOT_FOUND)
async def revoke(key: str, collector: Serving, asking: Asking) -> KeyItem:
    """Revoke a key by its id or name: at once in this process, and within seconds in others on the same database."""
    now = collector.clock()
    revoked = await collector.write("keys", lambda repositories: revoke_key(repositories, key, author=asking, now=now))
    await asyncio.to_thread(collector.keys.read)
    return await asyncio.to_thread(_read, collector, revoked.id)


def _read(collector: Collector, key_id: str) -> KeyItem:
    with collector.store.read() as reading:
        (found,) = [key for key in reading.api_keys.all() if key.id == key_id]
    return _item(found, collector.clock())


def _item(key: StoredKey, now: float) -> KeyItem:
    state = "revoked" if key.revoked_at is not None else "active" if key.is_valid(now) else "expired"
    fields = {name: getattr(key, name) for name in KeyItem.model_fields if name != "state"}
    return KeyItem.model_validate(fields | {"state": state})
