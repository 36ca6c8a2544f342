"""Migrates a database to the newest schema, by Alembic."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from monitor_server.store.schema.version import MIGRATIONS

__all__ = ["is_known", "migrate", "scripts"]


def scripts() -> ScriptDirectory:
    """Return the migrations of this version of rlvitals; each is a module, which is imported."""
    return ScriptDirectory.from_config(_config())


def is_known(version: str) -> bool:
    """Return whether this version of rlvitals has a migration."""
    return version in {script.revision for script in scripts().walk_revisions()}


def migrate(connection: Connection) -> None:
    """Run the missing migrations of a database, in the open transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
