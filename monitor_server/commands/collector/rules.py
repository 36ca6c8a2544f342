"""`rlvitals rules check|apply|dry-run|list|delete`: the user's own rules, and files of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json, fetch_list, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import printable, say, table
from monitor_server.commands.user_name import user_name
from monitor_server.detection.protocol import RULE_PREFIX

if TYPE_CHECKING:
    from monitor_server.rules.administration.rule_file import RuleFile

__all__ = ["run"]

COLUMNS = ("id", "name", "project", "run_id", "severity", "enabled", "file_set", "stated")
MAX_SHOWN = 20


def run(
    *,
    action: Annotated[
        Literal["check", "apply", "dry-run", "list", "delete"],
        typer.Argument(show_choices=False, help="check, apply, dry-run, list or delete."),
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="FILE|ID", help="A file of rules, or the id of the rule to delete.")
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="The id of the recorded run on which `dry-run` tries the rules."),
    ] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only rules of this project.")] = None,
    by: Annotated[str | None, typer.Option(help="Name of the person who applies the file (your user name).")] = None,
    url: CollectorUrl = DEFAULT_URL,
    limit: Annotated[int, typer.Option(help="Largest number of lines of `list`.")] = 200,
) -> int:
    """Check a file of rules, try it on a recorded run, apply it, list the rules, or delete one."""
    if action == "list":
        fields = {"limit": str(limit)} | ({} if project is None else {"project": project})
        items = fetch_list(url, "/rules", fields)
        table(COLUMNS, [[_cell(item, column) for column in COLUMNS] for item in items])
        return 0
    if target is None:
        needed = "the id of a rule; `rlvitals rules list` lists them" if action == "delete" else "a file of rules"
        raise CommandError(f"`rlvitals rules {action}` needs {needed}")
    if action == "delete":
        deleted = fetch_json("DELETE", url, f"/rules/{path_part(target)}")
        say(f"rule {printable(_cell(deleted, 'name'))} is deleted; its alerts are resolved within seconds")
        return 0
    file = _read(target)
    if action == "check":
        rules = "1 rule" if len(file.rules) == 1 else f"{len(file.rules)} rules"
        say(f"{printable(target)} is valid: {rules} of the set {file.set}")
    elif action == "apply":
        _apply(file, url, by or user_name())
    elif run_id is None:
        raise CommandError("`rlvitals rules dry-run` needs --run with the id of a run; `rlvitals runs` lists them")
    else:
        for rule in file.rules:
            _try(rule.model_dump(mode="json", exclude_none=True), run_id, url)
    return 0


def _read(path: str) -> "RuleFile":
    from monitor_server.errors import InvalidField  # noqa: PLC0415 - importing pydantic is slow
    from monitor_server.rules.administration.rule_file import load_rules  # noqa: PLC0415

    try:
        return load_rules(Path(path))
    except InvalidField as error:
        raise CommandError(str(error)) from error


def _apply(file: "RuleFile", url: str, author: str) -> None:
    rules = [rule.model_dump(mode="json", exclude_none=True) for rule in file.rules]
    applied = fetch_json("POST", url, "/rules/apply", json={"set": file.set, "rules": rules, "by": author})
    for name in applied["created"]:
        say(f"created {printable(name)}")
    for name, fields in applied["changed"].items():
        say(f"changed {printable(name)}: {printable(', '.join(fields))}")
    for name in applied["deleted"]:
        say(f"deleted {printable(name)}")
    say(f"{applied['unchanged']} as before")


def _try(rule: dict[str, Any], run_id: str, url: str) -> None:
    tried = fetch_json("POST", url, "/rules/dry-run", json={"run_id": run_id, "rule": rule}, timeout=60)
    outcome = {
        "no_data": "no data: no step that was read has what it needs",
        "quiet": "it would not have fired",
        "fired": "it would have fired once"
        if tried["episode_count"] == 1
        else f"it would have fired {tried['episode_count']} times",
    }[tried["state"]]
    say(f"{printable(rule['name'])} ({printable(tried['stated'])}): {outcome}; {tried['steps']} steps were read")
    for episode in tried["episodes"][:MAX_SHOWN]:
        end = "not resolved" if episode["resolved_step"] is None else f"resolved at step {episode['resolved_step']}"
        say(f"  step {episode['fired_step']}, {end}: {printable(episode['summary'])}")
    hidden = tried["episode_count"] - min(MAX_SHOWN, len(tried["episodes"]))
    if hidden > 0:
        say(f"  and {hidden} more times")
    if not tried["is_complete"]:
        after = "later steps" if tried["last_step"] is None else f"steps after {tried['last_step']}"
        if (attempt := tried.get("last_attempt")) is not None:  # an older collector does not name it
            after += f" of attempt {attempt}, and later attempts,"
        say(f"  {after} were not read: one dry run reads 200000 steps, for 20 seconds")


def _cell(item: dict[str, Any], column: str) -> object:
    rule = item["rule"] or {"name": item["kind"].removeprefix(RULE_PREFIX)}  # null: this collector cannot read the rule
    return item[column] if column in item else rule.get(column, "")
