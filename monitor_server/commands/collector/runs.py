"""`rlvitals runs`: list the runs of a collector, reset one, or delete one or a project."""

from typing import Annotated

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json, fetch_list, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import printable, say, table

__all__ = ["run"]

COLUMNS = ("project", "name", "status", "phase", "last_step", "alerts", "attempt", "world_size", "id")


def run(
    *,
    reset: Annotated[
        str | None, typer.Option(metavar="ID", help="Reset this run instead of listing; see the next two options.")
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            help="With --reset: the attempt that becomes the newest; later ones are removed with their steps."
        ),
    ] = None,
    world_size: Annotated[
        int | None, typer.Option(help="With --reset: the number of ranks of the newest attempt.")
    ] = None,
    delete: Annotated[str | None, typer.Option(metavar="ID", help="Delete this run and all its data.")] = None,
    delete_project: Annotated[str | None, typer.Option(metavar="NAME", help="Delete all runs of this project.")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="With --delete or --delete-project: also delete runs whose trainer sends or that a rule needs.",
        ),
    ] = False,
    url: CollectorUrl = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Largest number of lines to print.")] = 50,
) -> int:
    """Print one line for each run, the newest first, or reset or delete one; a reset also ends a quarantine."""
    if sum(chosen is not None for chosen in (reset, delete, delete_project)) > 1:
        raise CommandError("--reset, --delete and --delete-project cannot be given together")
    if delete is not None or delete_project is not None:
        path = f"/runs/{path_part(delete)}" if delete is not None else f"/projects/{path_part(delete_project or '')}"
        deleted = fetch_json("DELETE", url, path, fields={"force": "true"} if force else {})["runs"]
        runs = f"{len(deleted)} run{'s' * (len(deleted) != 1)}"
        say(f"{runs} deleted; the rows are removed in the background, which needs some free space on a SQLite disk")
        return 0
    if force:
        raise CommandError("--force needs --delete ID or --delete-project NAME")
    if reset is None:
        if attempt is not None or world_size is not None:
            raise CommandError("--attempt and --world-size need --reset ID; `rlvitals runs` lists the ids")
        items = fetch_list(url, "/runs", {"limit": str(limit)})
        table(COLUMNS, [[item[name] for name in COLUMNS] for item in items])
        return 0
    body = {"attempt": attempt, "world_size": world_size}
    answer = fetch_json("POST", url, f"/runs/{path_part(reset)}/reset", json=body)
    say(f"{printable(answer['name'])}: attempt {answer['attempt']}, world size {answer['world_size']}")
    return 0
