"""`rlvitals keys create|list|revoke`: the keys of a collector, in its database or over HTTP."""

import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any, Literal

import typer

from monitor_server.commands.client import fetch_json, fetch_list, path_part, trim_address, url_of_environment
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import local_time, printable, say, table
from monitor_server.commands.user_name import user_name
from monitor_server.durations import DAY_SECONDS

__all__ = ["run"]

COLUMNS = ("name", "scope", "project", "state", "created", "last_used", "expires", "id")


def run(
    *,
    action: Annotated[
        Literal["create", "list", "revoke"], typer.Argument(show_choices=False, help="create, list or revoke.")
    ],
    name: Annotated[str | None, typer.Argument(help="The key's name; `revoke` also takes an id.")] = None,
    scope: Annotated[
        Literal["ingest", "read", "operate", "admin"] | None,
        typer.Option(
            help="ingest (trainers), read, operate (also acknowledge, silence, reset ...), or admin (everything)."
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="NAME", help="The only project that the key may access (all).")
    ] = None,
    days: Annotated[float | None, typer.Option(help="Days until the key expires (never).", min=0.0)] = None,
    database: Annotated[str | None, typer.Option(help="SQLAlchemy URL (RLVITALS_DATABASE_URL).")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Ask this collector instead, with the admin key in RLVITALS_API_KEY "
            "(RLVITALS_URL, where no database is named)."
        ),
    ] = None,
) -> int:
    """Create, list or revoke keys. A new key is printed once, and only its hash is stored."""
    if url is None and database is None and not os.environ.get("RLVITALS_DATABASE_URL"):
        url = url_of_environment()
    # The first key is often created before the collector runs.
    with closing(_OverHttp(url) if url is not None else _InDatabase(database, may_be_new=action == "create")) as keys:
        return _act(keys, action, name, scope=scope, project=project, days=days)


def _act(
    keys: "_OverHttp | _InDatabase",
    action: str,
    name: str | None,
    *,
    scope: str | None,
    project: str | None,
    days: float | None,
) -> int:
    if action == "list":
        table(COLUMNS, [[_cell(key, column) for column in COLUMNS] for key in keys.all()])
        return 0
    if name is None:
        raise CommandError(f"`rlvitals keys {action}` needs a name")
    if action == "revoke":
        say(f"{printable(keys.revoke(name))} is revoked; it is refused within seconds")
        return 0
    if scope is None:
        raise CommandError("`rlvitals keys create` needs --scope ingest, read, operate or admin")
    secret = keys.create(name=name, scope=scope, project=project, days=days)
    say(secret)
    typer.echo("It is not shown again. Trainers and commands read it from RLVITALS_API_KEY.", err=True)
    return 0


class _OverHttp:
    def __init__(self, url: str) -> None:
        self._url = trim_address(url)

    def all(self) -> list[dict[str, Any]]:
        return [*fetch_list(self._url, "/keys")]

    def create(self, *, name: str, scope: str, project: str | None, days: float | None) -> str:
        fields = {"name": name, "scope": scope, "project": project, "days": days}
        return str(fetch_json("POST", self._url, "/keys", json=fields)["key"])

    def revoke(self, named: str) -> str:
        return str(fetch_json("DELETE", self._url, f"/keys/{path_part(named)}")["name"])

    def close(self) -> None:
        """Nothing needs to be closed."""


class _InDatabase:
    def __init__(self, database: str | None, *, may_be_new: bool) -> None:
        """Open the database. Only a new one gets a schema: a migration would stop the collector that runs on it."""
        from monitor_server.access.callers import Caller, Scope  # noqa: PLC0415 - importing SQLAlchemy is slow
        from monitor_server.commands.settings import database_url  # noqa: PLC0415
        from monitor_server.store.address import shown_url  # noqa: PLC0415
        from monitor_server.store.database import Store  # noqa: PLC0415
        from monitor_server.store.operations.inspection import inspect_database  # noqa: PLC0415
        from monitor_server.store.schema.version import newest_schema  # noqa: PLC0415

        address = database_url(database)
        shown, state = shown_url(address), inspect_database(address)
        schema = None if state is None else state.schema_version
        made = "was created" if state is None else "had no tables of rlvitals, which were made"
        self._new = f"{shown} {made}" if schema is None else None
        if schema is None and not may_be_new:
            raise CommandError(
                f"there is no database {shown}{'' if state is None else ' with tables of rlvitals'}; set "
                "RLVITALS_DATABASE_URL or --database to that of the collector, or ask the collector with --url"
            )
        if schema is not None and schema < newest_schema():
            raise CommandError(
                f"the database {shown} has the schema {schema}, and this rlvitals uses {newest_schema()}; ask its "
                "collector with --url, or use the collector's rlvitals, or make a backup (`rlvitals backup`) and start "
                "a collector of this version, which migrates it"
            )
        self._store = Store.open(address)
        self._author = Caller(name=f"{user_name()} on the machine", scope=Scope.ADMIN)

    def all(self) -> list[dict[str, Any]]:
        now = time.time()
        with self._store.read() as repositories:
            stored = repositories.api_keys.all()
        return [
            {name: getattr(key, name) for name in key.__slots__}
            | {"state": "revoked" if key.revoked_at is not None else "active" if key.is_valid(now) else "expired"}
            for key in stored
        ]

    def create(self, *, name: str, scope: str, project: str | None, days: float | None) -> str:
        from pydantic import ValidationError  # noqa: PLC0415

        from monitor_server.access.keys.administration import create_key  # noqa: PLC0415
        from monitor_server.access.keys.new_keys import NewKey  # noqa: PLC0415
        from monitor_server.errors import InvalidField, KeyNameTaken  # noqa: PLC0415

        try:
            new = NewKey.model_validate({"name": name, "scope": scope, "project": project, "days": days})
        except ValidationError as error:
            raise CommandError(f"no key can be made: {'; '.join(map(_problem, error.errors()))}") from error
        now = time.time()
        try:
            with self._store.write() as repositories:
                secret, _ = create_key(
                    repositories,
                    name=new.name,
                    scope=new.scope,
                    project=new.project,
                    expires_at=None if new.days is None else now + new.days * DAY_SECONDS,
                    author=self._author,
                    now=now,
                )
        except (InvalidField, KeyNameTaken) as error:
            raise CommandError(str(error)) from error
        if self._new is not None:
            typer.echo(
                f"The database {self._new} for this key, and a collector on another one does not know it; name its "
                "database by --database, or its address by --url.",
                err=True,
            )
        return secret

    def revoke(self, named: str) -> str:
        from monitor_server.access.keys.administration import revoke_key  # noqa: PLC0415
        from monitor_server.errors import UnknownKey  # noqa: PLC0415

        try:
            with self._store.write() as repositories:
                return revoke_key(repositories, named, author=self._author, now=time.time()).name
        except UnknownKey as error:
            raise CommandError(str(error)) from error

    def close(self) -> None:
        self._store.close()


def _problem(found: Mapping[str, Any]) -> str:
    is_hidden = found["type"] in {"hidden_characters", "string_unicode"}
    message = "must be one line of characters that are shown" if is_hidden else found["msg"]
    return f"{found['loc'][0]}: {message}, got {printable(found['input'], longest=60)}"


def _cell(key: dict[str, Any], column: str) -> object:
    if column in key:
        return key[column]
    at = key[f"{column}_at"]
    return None if at is None else local_time(at)
