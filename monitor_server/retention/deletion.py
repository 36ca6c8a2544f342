"""A person deletes a run or a project: it is hidden at once, and the worker removes its rows."""

from collections.abc import Mapping, Sequence

from monitor_server.errors import RuleConflict, RunActive, UnknownProject, UnknownRun
from monitor_server.settings import Deadlines
from monitor_server.store.repositories import Repositories
from monitor_server.store.repositories.run_status import ACTIVE

__all__ = ["delete_project", "delete_run"]

NAMED = 3


def delete_run(
    repositories: Repositories, run_id: str, *, is_forced: bool, now: float, deadlines: Deadlines
) -> list[str]:
    """Begin to delete a run, and return its id in a list.

    Args:
        repositories: An open transaction.
        run_id: The run.
        is_forced: Whether to delete it while its trainer sends, or a rule compares with it.
        now: Seconds since the epoch.
        deadlines: The times after which a silent run is lost.

    Raises:
        UnknownRun: If there is no such run.
        RunActive: If its trainer sends, and the deletion is not forced.
        RuleConflict: If a rule compares with it, and the deletion is not forced.
    """
    found = repositories.run_views.statuses(now=now, deadlines=deadlines, run_id=run_id)
    if not found:
        raise UnknownRun.by_id(run_id)
    rules = repositories.rules.compared_runs().get(run_id)
    if rules and not is_forced:
        names = _some([repr(name) for name in rules])
        raise RuleConflict(
            f"no rule may compare with a run that is deleted, as {names}; change, delete or "
            "switch off the rule first, or force the deletion (`rlvitals runs --force`, over HTTP force=true); after "
            "that the rule has nothing to compare with, and its alerts are resolved"
        )
    return _delete(repositories, found, is_forced=is_forced, now=now)


def delete_project(
    repositories: Repositories, project: str, *, is_forced: bool, now: float, deadlines: Deadlines
) -> list[str]:
    """Begin to delete all runs of a project with its silences and views, and return the ids of the runs.

    The arguments are those of `delete_run`.

    Raises:
        UnknownProject: If no run belongs to it.
        RunActive: If the trainer of one of its runs sends, and the deletion is not forced. Then nothing is deleted.
    """
    found = repositories.run_views.statuses(now=now, deadlines=deadlines, project=project)
    if not found:
        raise UnknownProject.by_name(project)
    deleted = _delete(repositories, found, is_forced=is_forced, now=now)
    repositories.silences.remove_project(project)
    repositories.saved_views.remove_project(project)
    return deleted


def _delete(
    repositories: Repositories, found: Mapping[str, tuple[str, str]], *, is_forced: bool, now: float
) -> list[str]:
    active = [f"{name!r} is {status}" for name, status in found.values() if status in ACTIVE]
    if active and not is_forced:
        raise RunActive(
            f"a run must have ended before it is deleted: {_some(active)}; stop the trainer "
            "first, or force the deletion (`rlvitals runs --force`, over HTTP force=true), after which the run "
            "starts again with the next batches of its trainer"
        )
    repositories.deletion.begin_deletion(found, now=now)
    return list(found)


def _some(named: Sequence[str]) -> str:
    """Return the first of some names, and the number of the others."""
    others = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{', '.join(named[:NAMED])}{others}"
