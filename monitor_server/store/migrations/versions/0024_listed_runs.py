"""What runs are searched, grouped and sorted by."""

import json
import math
import re
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

OWNER_TAG = "owner:"
COMPARED = 8
SEED = re.compile(r"[-_ /]*seed[-_ =]*\d+", re.IGNORECASE)
SLICE = 500  # runs


def upgrade() -> None:
    op.add_column("runs", sa.Column("search_text", sa.Text(), nullable=False, server_default=""))
    op.add_column("runs", sa.Column("setting", sa.String(), nullable=False, server_default=""))
    op.add_column("runs", sa.Column("tagged_owner", sa.String(), nullable=True))
    op.add_column("runs", sa.Column("first_tag", sa.String(), nullable=True))
    op.add_column("runs", sa.Column("reward", sa.Float(), nullable=True))
    op.add_column("runs", sa.Column("reward_change", sa.Float(), nullable=True))
    _fill()


def downgrade() -> None:
    raise NotImplementedError("restore the backup that was made before the upgrade")


def _fill() -> None:
    texts = ("project", "name", "title", "search_text", "setting", "tagged_owner", "first_tag")
    blobs, numbers = ("tags", "recent"), ("reward", "reward_change")
    runs = sa.table(
        "runs",
        sa.column("number", sa.Integer()),
        *(sa.column(name, sa.Text()) for name in texts),
        *(sa.column(name, sa.LargeBinary()) for name in blobs),
        *(sa.column(name, sa.Float()) for name in numbers),
    )
    given = (runs.c.number, runs.c.project, runs.c.name, runs.c.title, runs.c.tags, runs.c.recent)
    connection, last = op.get_bind(), 0
    update = sa.update(runs).where(runs.c.number == sa.bindparam("row"))
    while rows := connection.execute(
        sa.select(*given).where(runs.c.number > last).order_by(runs.c.number).limit(SLICE)
    ).all():
        connection.execute(update, [_derived(row) for row in rows])
        last = rows[-1].number


def _derived(row: sa.Row[*tuple[Any, ...]]) -> dict[str, object]:
    tags = _tags(row.tags)
    rewards = _rewards(row.recent)
    newest, first = rewards[-COMPARED:], rewards[:COMPARED]
    change = sum(newest) / len(newest) - sum(first) / len(first) if rewards else math.nan
    project, name, title = (text if isinstance(text, str) else "" for text in (row.project, row.name, row.title))
    return {
        "row": row.number,
        "search_text": " ".join((project, name, title, *tags)).lower(),
        "setting": SEED.sub("", name) or name,
        "tagged_owner": next(
            filter(None, (tag.removeprefix(OWNER_TAG).strip() for tag in tags if tag.startswith(OWNER_TAG))), None
        ),
        "first_tag": next(iter(tags), None),
        "reward": rewards[-1] if rewards else None,
        "reward_change": change if math.isfinite(change) else None,
    }


def _rewards(recent: bytes) -> list[float]:
    """Return the finite rewards that a row holds; none where they are damaged."""
    try:
        held = msgspec.msgpack.decode(recent)["rewards"]
        return [float(value) for value in held if math.isfinite(value)]
    except (msgspec.MsgspecError, ValueError, RecursionError, KeyError, TypeError):
        return []


def _tags(stored: bytes | None) -> list[str]:
    """Return the tags that a row holds; none where they are damaged."""
    try:
        tags = json.loads(stored or b"[]")
    except (ValueError, RecursionError):
        return []
    return [tag for tag in tags if isinstance(tag, str) and tag.isprintable()] if isinstance(tags, list) else []
