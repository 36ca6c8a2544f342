"""`rlvitals silence add|list|end`: alerts that cause no notification."""

from typing import Annotated, Any, Literal

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json, fetch_list, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import local_time, printable, say, table
from monitor_server.commands.user_name import user_name
from monitor_server.durations import HOUR_SECONDS, LONGEST_SILENCE_SECONDS

__all__ = ["run"]

LONGEST_HOURS = LONGEST_SILENCE_SECONDS / HOUR_SECONDS
COLUMNS = ("id", "state", "project", "run_id", "kind", "alert_id", "severity", "until", "created_by", "reason")


def run(
    *,
    action: Annotated[Literal["add", "list", "end"], typer.Argument(show_choices=False, help="add, list or end.")],
    silence: Annotated[str | None, typer.Argument(metavar="ID", help="The id of the silence to end.")] = None,
    alert: Annotated[str | None, typer.Option(metavar="ID", help="Silence only this alert.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Silence only alerts of this run.")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Silence only alerts of this project.")] = None,
    kind: Annotated[str | None, typer.Option(help="Silence only alerts of this kind (rule:NAME for a rule).")] = None,
    hours: Annotated[float | None, typer.Option(help="Length of the silence in hours, at most 8,784.")] = None,
    until_resolved: Annotated[
        bool, typer.Option("--until-resolved", help="Silence until --alert is resolved.")
    ] = False,
    reason: Annotated[str, typer.Option(help="The reason, which is kept with the silence and its alerts.")] = "",
    by: Annotated[str | None, typer.Option(help="Name of the person who adds or ends it (your user name).")] = None,
    url: CollectorUrl = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Largest number of lines of `list`.")] = 50,
) -> int:
    """Silence alerts for some hours or until one is resolved, list silences, or end one."""
    author = by or user_name()
    if action == "list":
        items = fetch_list(url, "/silences", {"limit": str(limit)})
        table(COLUMNS, [[_cell(item, column) for column in COLUMNS] for item in items])
        return 0
    if action == "end":
        if silence is None:
            raise CommandError("`rlvitals silence end` needs the id of a silence; `rlvitals silence list` lists them")
        ended = fetch_json("POST", url, f"/silences/{path_part(silence)}/end", json={"by": author})
        say(f"silence {printable(ended['id'])} has ended")
        return 0
    if (hours is None) != until_resolved:
        raise CommandError("`rlvitals silence add` needs either --hours or --until-resolved")
    if hours is not None and not 0 < hours <= LONGEST_HOURS:
        raise CommandError(f"--hours must be above 0 and at most {LONGEST_HOURS:,.0f} (366 days), got {hours:g}")
    named = {"alert_id": alert, "run_id": run_id, "project": project, "kind": kind}
    body: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    body |= {"until_resolved": True} if hours is None else {"minutes": hours * 60.0}
    made = fetch_json("POST", url, "/silences", json=body | {"by": author, "reason": reason})
    say(f"silence {printable(made['id'])} {_until(made)}")
    return 0


def _until(item: dict[str, Any]) -> str:
    if item["ends_at"] is None:
        return "until the alert is resolved"
    return "until " + local_time(item["ends_at"])


def _cell(item: dict[str, Any], column: str) -> object:
    return _until(item).removeprefix("until ") if column == "until" else item[column]
