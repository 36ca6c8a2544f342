"""`rlvitals warranty`: print the ledger of the budget of false pages, of one run or of all."""

from typing import Annotated, Any

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_items, fetch_json, path_part
from monitor_server.commands.terminal import printable, say, table

__all__ = ["run"]

NO_BUDGET = "no budget is stated: `rlvitals calibrate RUNS --one-page-in STEPS` makes one (docs/warranty.md)"
COLUMNS = ("project", "run", "steps", "pages opened", "pages allowed", "steps held back", "warranty", "id")


def run(
    *,
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Id of the run; without it, all runs. `rlvitals runs` lists the ids."),
    ] = None,
    url: CollectorUrl = DEFAULT_URL,
) -> int:
    """Print the budget of a run and its spent part, or one line for each run and the sums."""
    if run_id is None:
        return _print_all(url)
    ledger = _ledger(url, run_id)
    if ledger is None:
        say(NO_BUDGET)
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
                f"healthy run has {ledger['longest']:,}; pages beyond the budget are held back all the same"
            )
    return 0


def _print_all(url: str) -> int:
    found = [(listed, _ledger(url, listed["id"])) for listed in fetch_items(url, "/runs")]
    kept = [(listed, ledger) for listed, ledger in found if ledger is not None]
    if not kept:
        say(NO_BUDGET)
        return 0
    table(COLUMNS, [_cells(listed, ledger) for listed, ledger in kept])
    in_force = [ledger for _, ledger in kept if ledger["is_in_force"]]
    covered = [ledger for ledger in in_force if not ledger["is_longer"]]
    pages = sum(ledger["pages_opened"] for ledger in covered)
    budget = sum(ledger["steps"] / ledger["steps_per_page"] for ledger in covered)
    steps = sum(ledger["steps"] for ledger in covered)
    say(
        f"runs with a warranty: {len(covered)} of {len(kept)}; their pages, right and false ones: {pages}; their "
        f"recorded steps: {steps:,}, for which the budget allows {budget:.2f} false pages"
    )
    if len(covered) < len(in_force):
        say(f"runs that are too long, for which nothing is promised any more: {len(in_force) - len(covered)}")
    return 0


def _ledger(url: str, run_id: str) -> dict[str, Any] | None:
    return fetch_json("GET", url, f"/runs/{path_part(run_id)}/warranty", is_nullable=True) or None


def _cells(listed: Any, ledger: dict[str, Any]) -> list[Any]:  # noqa: ANN401 - an item of the API
    is_in_force = ledger["is_in_force"]
    return [
        listed["project"],
        listed["name"],
        ledger["steps"],
        ledger["pages_opened"],
        f"{ledger['pages_allowed']:.3g}" if is_in_force else "all",
        ledger["steps_held_back"],
        "run too long" if ledger["is_longer"] and is_in_force else "yes" if is_in_force else "not yet",
        listed["id"],
    ]
