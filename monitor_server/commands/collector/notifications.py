"""`rlvitals notifications list|test|reload|end-links`: the channels that a collector notifies."""

from typing import Annotated, Any, Literal

import typer

from monitor_server.commands.client import DEFAULT_URL, CollectorUrl, fetch_json, fetch_list, path_part
from monitor_server.commands.errors import CommandError
from monitor_server.commands.terminal import local_time, printable, say, table

__all__ = ["run"]

COLUMNS = ("name", "type", "address", "state", "waiting", "last_sent", "last_error")
# Longer than the collector's longest wait for a receiver.
TEST_SECONDS = 70.0


def run(
    *,
    action: Annotated[
        Literal["list", "test", "reload", "end-links"],
        typer.Argument(show_choices=False, help="list, test, reload or end-links."),
    ],
    channel: Annotated[str | None, typer.Argument(help="The channel to which `test` sends a message.")] = None,
    url: CollectorUrl = DEFAULT_URL,
) -> int:
    """List the channels, test one, read their file again, or end all links that were sent to them."""
    if action == "end-links":
        answer = fetch_json("POST", url, "/notifications/links/end")
        secret = (
            "messages from now on are signed with a new secret"
            if answer.get("has_new_secret", True)  # an older collector always makes one
            else "the secret stays as it is: replace the file of RLVITALS_LINK_SECRET_FILE for a new one"
        )
        say(f"{answer['ended']} links no longer hold; {secret}")
        return 0
    if action == "reload":
        answer = fetch_json("POST", url, "/notifications/reload", timeout=TEST_SECONDS)
        say(f"the file is in force: {answer['channels']} channels, {answer['routes']} routes")
        return 0
    if action == "test":
        if channel is None:
            raise CommandError("`rlvitals notifications test` needs the name of a channel")
        path = f"/notifications/channels/{path_part(channel)}/test"
        answer = fetch_json("POST", url, path, timeout=TEST_SECONDS)
        say(f"{printable(answer['name'])} has accepted the message {printable(answer['id'])}")
        return 0
    items = fetch_list(url, "/notifications/channels")
    table(COLUMNS, [[_cell(item, column) for column in COLUMNS] for item in items])
    return 0


def _cell(item: dict[str, Any], column: str) -> object:
    if column == "state":
        return "failing" if item["is_failing"] else "ok"
    if column == "last_sent":
        at = item["last_sent_at"]
        return None if at is None else local_time(at)
    return item[column]
