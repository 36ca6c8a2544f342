"""`rlvitals warranty RUN`: print the ledger of a run's budget of false pages."""

import json
from typing import Annotated
from urllib.parse import quote

import typer

from monitor_server.commands.client import DEFAULT_URL, fetch
from monitor_server.commands.terminal import printable, say

__all__ = ["run"]


def run(
    *,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="The run; `rlvitals runs` lists the ids.")],
    url: Annotated[str, typer.Option(help="Address of the collector.")] = DEFAULT_URL,
) -> int:
    """Print what the budget allows the run and what the run has spent."""
    ledger = json.loads(fetch("GET", url, f"/runs/{quote(run_id, safe='')}/warranty"))
    if ledger is None:
        say("no budget is stated: `rlvitals calibrate RUNS --one-page-in STEPS` makes one (docs/warranty.md)")
        return 0
    say(printable(ledger["promise"]))
    say(f"pages opened: {ledger['pages_opened']}")
    if ledger["is_in_force"]:
        allowed, strength = ledger["pages_allowed"], ledger["strength"]
        say(f"pages allowed so far: {allowed:.3g}, at the strength {strength:.3g}")
        say(f"steps at which a page was held back as a warning: {ledger['steps_held_back']}")
        if ledger["is_longer"]:
            say(
                f"nothing is promised any more: this run has {ledger['steps']:,} recorded steps, and the longest "
                f"healthy run has {ledger['longest']:,}"
            )
    return 0
