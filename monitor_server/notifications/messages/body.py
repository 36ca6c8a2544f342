"""The body of a message: version 1, which webhooks receive. docs/notifications.md documents its fields.

Names and summaries come from outside. The body contains them unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from monitor_server.alerts.changes.stages import is_taken_back
from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.attribution.remedies import remedies
from monitor_server.detection.protocol import Severity
from monitor_server.detection.suspects import doubts, suspect_of
from monitor_server.notifications.messages.wording import CHANGES, LONGEST_SUMMARY, title
from monitor_server.text_safety.printable import printable

__all__ = ["BODY_VERSION", "MAX_ALERTS", "alert_items", "build_body", "most_severe", "without_alerts"]

BODY_VERSION: Final = 1
MAX_ALERTS: Final = 100  # in the body; further alerts are only counted
MAX_REMEDIES: Final = 3


def alert_items(rows: Iterable[Mapping[str, Any]], *, public_url: str) -> list[dict[str, Any]]:
    """Return one item for each alert of a message, with all its changes, the most urgent first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["id"] in found:
            item = found[row["id"]]
        elif len(found) < MAX_ALERTS:
            item = found[row["id"]] = _alert_item(row, public_url)
        else:
            continue
        if row["change"] not in item["changes"]:
            item["changes"].append(row["change"])
        if row["instead_of"] is not None and row["instead_of"] not in item["instead_of"]:
            item["instead_of"].append(row["instead_of"])
    order = {change: place for place, change in enumerate(CHANGES)}
    for item in found.values():
        item["changes"].sort(key=order.__getitem__)
    return list(found.values())


def build_body(
    *,
    message_id: str,
    channel: str,
    created_at: float,
    severity: str,
    alerts: Sequence[Mapping[str, Any]],
    counts: Mapping[str, Any],
    public_url: str,
    failing: Mapping[str, str] | None = None,
    is_test: bool = False,
    notice: str = "",
) -> dict[str, Any]:
    """Return the body of a message; docs/notifications.md documents its fields.

    Args:
        message_id: The key by which a receiver recognises a repeat.
        channel: The channel that receives it.
        created_at: Seconds since the epoch.
        severity: The severity of the most severe alert.
        alerts: From `alert_items`.
        counts: From `NotificationMessages.counts`.
        public_url: The address of the dashboard.
        failing: The channels whose alerts this channel receives as a fallback, with the reasons.
        is_test: Whether this is a message that only tests the channel.
        notice: Information for the readers other than alerts, in words.
    """
    body = {
        "version": BODY_VERSION,
        "id": message_id,
        "channel": channel,
        "created_at": created_at,
        "test": is_test,
        "notice": notice,
        "severity": severity,
        "counts": dict(counts),
        "alerts": list(alerts),
        "omitted_alerts": max(0, int(counts["alerts"]) - len(alerts)),
        "failing_channels": dict(failing or {}),
        "url": public_url,
    }
    return body | {"title": title(body)}


def without_alerts(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a message that only counts its alerts, for a receiver that refuses what they contain.

    The names of projects and of rules come from outside too, and may be what it refuses.
    """
    kinds: Counter[str] = Counter()
    for kind, number in body["counts"]["kinds"].items():
        kinds[kind.partition(":")[0]] += number
    counts = {**body["counts"], "kinds": dict(kinds.most_common()), "projects": {}}
    short = {**body, "counts": counts, "alerts": [], "omitted_alerts": counts["alerts"]}
    return short | {"title": title(short)}


def most_severe(rank: int) -> str:
    """Return the name of a severity by its rank."""
    return str(list(Severity)[rank])


def _alert_item(row: Mapping[str, Any], public_url: str) -> dict[str, Any]:
    names = (
        "id", "run_id", "run", "project", "kind", "severity", "state", "phase", "opened_step", "severity_step",
        "last_step", "resolved_step", "opened_at", "summary", "acknowledged_by", "reopened_from",
    )  # fmt: skip
    known = [
        {"change": remedy.change, "how": remedy.how, "source": remedy.source} for remedy in remedies(row["kind"])
    ]  # fmt: skip
    url = f"{public_url}/runs/{quote(row['run_id'], safe='')}/alerts/{quote(row['id'], safe='')}"
    item = {name: row[name] for name in names} | {"summary": printable(row["summary"], longest=LONGEST_SUMMARY)}
    item["is_taken_back"] = is_taken_back(
        kind=row["kind"],
        severity_step=row["severity_step"],
        last_step=row["last_step"],
        resolved_step=row["resolved_step"],
    )
    item["run_end"] = row.get("run_end") or ("stopped" if _is_given_up(row) else None)
    item["suspect"] = str(suspect_of(row["kind"]))
    item["instrument_alerts"] = doubts(row["kind"], row.get("open_instrument_kinds", ()))
    return item | {"changes": [], "instead_of": [], "remedies": known[:MAX_REMEDIES], "url": url}


def _is_given_up(row: Mapping[str, Any]) -> bool:
    """Return whether the alert of a silent run has ended although nothing came from its trainer since it opened."""
    return is_clock_kind(row["kind"]) and row["state"] == "resolved" and row["last_seen"] < row["opened_at"]
