"""`rlvitals alerts`: list alerts, acknowledge one, comment on it, judge whether it was right, or read its history."""

from collections.abc import Sequence
from typing import Annotated

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json, fetch_list, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import local_time, printable, say, table
from monitor_server.commands.user_name import user_name

__all__ = ["run"]

COLUMNS = (
    "project",
    "run",
    "severity",
    "stage",
    "kind",
    "opened_step",
    "severity_step",
    "id",
    "acknowledged_by",
    "summary",
)
HISTORY = ("at", "change", "stage", "step", "by", "why")


def run(
    *,
    ack: Annotated[str | None, typer.Option(metavar="ID", help="Acknowledge this alert instead of listing.")] = None,
    comment: Annotated[str | None, typer.Option(metavar="ID", help="Add --note to this alert's history.")] = None,
    history: Annotated[str | None, typer.Option(metavar="ID", help="Print the history of this alert.")] = None,
    right: Annotated[str | None, typer.Option(metavar="ID", help="Record that this alert was right.")] = None,
    wrong: Annotated[str | None, typer.Option(metavar="ID", help="Record that this alert was a false alarm.")] = None,
    failed_at: Annotated[
        int | None, typer.Option(metavar="STEP", help="With --right: the step at which the run failed.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Name of the person who acknowledges, judges or comments (your user name).")
    ] = None,
    note: Annotated[
        str, typer.Option(help="The comment, or a note that is kept with the acknowledgement or judgement.")
    ] = "",
    url: CollectorUrl = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Largest number of lines to print.")] = 50,
) -> int:
    """Print one line for each alert, the newest first, or acknowledge, comment on or judge one, or show its history."""
    asked = {"--ack": ack, "--comment": comment, "--history": history, "--right": right, "--wrong": wrong}
    given = [option for option, alert_id in asked.items() if alert_id is not None]
    _refuse_useless(given, is_step_given=failed_at is not None, is_text_given=bool(by or note))
    author = by or user_name()
    if right is not None:
        return _judge(url, right, {"is_right": True, "failed_at": failed_at, "by": author, "note": note})
    if wrong is not None:
        return _judge(url, wrong, {"is_right": False, "by": author, "note": note})
    if comment is not None:
        if not note:
            raise CommandError("`rlvitals alerts --comment` needs the text of the comment in --note")
        body = {"by": author, "text": note}
        fetch_json("POST", url, f"/alerts/{path_part(comment)}/comments", json=body)
        say(f"the comment is kept with alert {printable(comment)}")
        return 0
    if history is not None:
        path = f"/alerts/{path_part(history)}/history"
        entries = fetch_list(url, path, {"limit": str(limit)})
        for entry in entries:
            entry["at"] = local_time(entry["at"])
        table(HISTORY, [[entry[name] for name in HISTORY] for entry in entries])
        return 0
    if ack is None:
        items = fetch_list(url, "/alerts", {"limit": str(limit)})
        table(COLUMNS, [[item[name] for name in COLUMNS] for item in items])
        return 0
    alert = fetch_json("POST", url, f"/alerts/{path_part(ack)}/ack", json={"by": author, "note": note})
    kind, name, state, person = (printable(alert[key]) for key in ("kind", "run", "state", "acknowledged_by"))
    say(f"{kind} of {name}: {state}, acknowledged by {person}")
    return 0


def _refuse_useless(actions: Sequence[str], *, is_step_given: bool, is_text_given: bool) -> None:
    """Refuse options that would have no effect."""
    if len(actions) > 1:
        raise CommandError(f"{', '.join(actions)} cannot be given together; use one command for each")
    if is_step_given and "--right" not in actions:
        raise CommandError("--failed-at needs --right ID")
    if is_text_given and not {"--ack", "--comment", "--right", "--wrong"}.intersection(actions):
        raise CommandError("--by and --note need --ack, --comment, --right or --wrong ID")


def _judge(url: str, alert_id: str, body: dict[str, object]) -> int:
    judged = fetch_json("POST", url, f"/alerts/{path_part(alert_id)}/judgement", json=body)
    say(
        f"{printable(judged['kind'])}: judged {'right' if judged['is_right'] else 'wrong'} by {printable(judged['by'])}"
    )
    return 0
