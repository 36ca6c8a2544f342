"""`rlvitals doctor`: check the settings, the database and a running collector."""

import dataclasses
import json
from typing import Annotated

import typer
from rich.text import Text

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl
from monitor_server.commands.doctor.collector_findings import check_collector
from monitor_server.commands.doctor.database_findings import check_database
from monitor_server.commands.doctor.findings import DoctorFinding, Level
from monitor_server.commands.doctor.settings_findings import check_settings
from monitor_server.commands.errors import CommandError
from monitor_server.commands.settings import database_url
from monitor_server.commands.terminal import console, printable, say

__all__ = ["run"]

COLOURS = {Level.OK: "green", Level.NOT_OBSERVED: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
INDENT = " " * 14


def run(
    *,
    url: CollectorUrl = DEFAULT_URL,
    database: Annotated[str | None, typer.Option(help="SQLAlchemy URL (RLVITALS_DATABASE_URL).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Print the findings with advice; the exit status is 1 if there is a problem, otherwise 0."""
    findings = list(check_settings())
    try:
        address = database_url(database)
    except CommandError:
        text = "its address is unknown while a setting cannot be used"
        advice = "correct the setting, or give the address by --database"
        findings.append(DoctorFinding(level=Level.NOT_OBSERVED, about="database", text=text, advice=advice))
    else:
        findings += check_database(address)
    findings += [each for each in check_collector(url) if each not in findings]  # both may look at one disk
    if as_json:
        say(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        _show(findings)
    return int(any(finding.level == Level.PROBLEM for finding in findings))


def _show(findings: list[DoctorFinding]) -> None:
    terminal = console()
    for finding in findings:
        line = Text(f"{finding.level:<{len(INDENT)}}", style=COLOURS[finding.level])
        terminal.print(line.append(f"{finding.about}: {printable(finding.text)}", style="default"))
        if finding.advice:
            terminal.print(Text(f"{INDENT}→ {printable(finding.advice)}"))
