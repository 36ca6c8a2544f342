"""The limits of retention. A limit of the environment comes first, then a saved limit, then the default."""

import logging
from dataclasses import dataclass
from typing import Any, Final, Literal

from monitor_server.access.audit.entries import record_change
from monitor_server.access.callers import Caller
from monitor_server.errors import SettingsConflict
from monitor_server.settings import Settings
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.retention.limits import SavedLimit

__all__ = [
    "FIXED",
    "SAVABLE",
    "Limit",
    "SavableLimits",
    "limits_in_force",
    "list_limits",
    "log_unused_limits",
    "refuse_fixed",
    "save_limits",
]

log = logging.getLogger(__name__)

Source = Literal["environment", "saved", "default"]
SAVABLE: Final = ("record_steps", "record_days", "response_days", "step_days", "thinned_steps", "run_days")
"""The limits that people may save, unless a variable sets them."""
FIXED: Final = {
    "response_steps": "ingest applies it",
    "audit_days": "a stolen key must not shorten it",
}
"""The limits that only the environment sets, with the reasons."""
IN_STEPS: Final = frozenset({"record_steps", "response_steps", "thinned_steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SavableLimits:
    """The limits that `SAVABLE` names; None keeps the data for good."""

    record_steps: int | None
    record_days: float | None
    response_days: float | None
    step_days: float | None
    thinned_steps: int
    run_days: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit: its value, its origin, and the person who has saved it."""

    name: str
    value: float | None
    source: Source
    saved: SavedLimit | None = None


def limits_in_force(repositories: Repositories, settings: Settings) -> SavableLimits:
    """Return the limits in force, as read in a transaction."""
    values: dict[str, Any] = {limit.name: limit.value for limit in list_limits(repositories, settings)}
    return SavableLimits(**{name: values[name] for name in SAVABLE})


def list_limits(repositories: Repositories, settings: Settings) -> list[Limit]:
    """Return all limits, including those that only the environment sets."""
    saved = repositories.retention_limits.all()
    return [_limit(name, settings, saved.get(name)) for name in (*SAVABLE, *FIXED)]


def log_unused_limits(repositories: Repositories) -> None:
    """Log each saved limit of 0 days: it is not in force, because it would remove at once, and looks like no limit."""
    for limit in repositories.retention_limits.all().values():
        if limit.value <= 0:
            log.warning(
                "the saved limit %s of 0 days is not in force and removes nothing; save more than 0 days in Settings, "
                "or null by PUT /api/v1/retention to keep the data for good",
                limit.name,
            )


def _limit(name: str, settings: Settings, saved: SavedLimit | None) -> Limit:
    is_set = name in settings.model_fields_set
    if saved is None or saved.value <= 0 or is_set or name in FIXED:
        return Limit(name=name, value=getattr(settings, name), source="environment" if is_set else "default")
    value = int(saved.value) if name in IN_STEPS else saved.value
    return Limit(name=name, value=value, source="saved", saved=saved)


def save_limits(
    repositories: Repositories,
    settings: Settings,
    wanted: dict[str, float | None],
    *,
    seen: dict[str, float | None],
    author: Caller,
    by: str,
    now: float,
) -> None:
    """Save limits in an open transaction; None restores the default, which keeps the data for good.

    Args:
        repositories: An open transaction.
        settings: Of the collector. Limits that its environment sets cannot be saved.
        wanted: Limits by name. The caller has checked their ranges.
        seen: The limits, of the same names, that were in force when the author decided.
        author: Who saves.
        by: The name that the author gives.
        now: Seconds since the epoch.

    Raises:
        SettingsConflict: If the environment sets one of them, if ``seen`` has other names, or if a limit in force
            differs from the one in ``seen``.
    """
    refuse_fixed(settings, wanted)
    if seen.keys() != wanted.keys():
        raise SettingsConflict("seen must have the same names as limits, with the values that are in force")
    repositories.retention_limits.lock()
    held = {limit.name: limit for limit in list_limits(repositories, settings)}
    changes = []
    for name, value in wanted.items():
        if held[name].value != seen[name]:
            raise SettingsConflict(
                f"{name} is now {_words(held[name].value)}, and was {_words(seen[name])} when this change was decided: "
                "preview the removal again, and save again"
            )
        default = Settings.model_fields[name].default
        if value is None or value == default:
            repositories.retention_limits.remove(name)
        else:
            limit = SavedLimit(name=name, value=float(value), saved_at=now, saved_by=author.signature(by))
            repositories.retention_limits.save(limit)
        shown = default if value is None else value
        if shown != held[name].value:
            changes.append(f"{name}: {_words(held[name].value)} -> {_words(shown)}")
    if changes:
        detail = "; ".join(changes)
        record_change(repositories, author, "retention.change", "how long data is kept", now=now, by=by, detail=detail)


def refuse_fixed(settings: Settings, wanted: dict[str, float | None]) -> None:
    """Refuse limits that the environment sets.

    Raises:
        SettingsConflict: If there is such a limit.
    """
    for name in wanted:
        if name in settings.model_fields_set:
            raise SettingsConflict(
                f"RLVITALS_{name.upper()} sets {name} in the environment of the collector; change it there, and "
                "restart the collector"
            )


def _words(value: float | None) -> str:
    return "for good" if value is None else str(int(value)) if value == int(value) else str(value)
