"""Converts the body of a message to a title, text and Markdown for people.

Names and summaries come from outside. The body contains them unchanged, in JSON. In text and Markdown they are made
harmless: one line, no links, no mention of people, no formatting.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from monitor_server.alerts.liveness import is_clock_kind
from monitor_server.detection.suspects import Suspect, first_steps
from monitor_server.durations import spell_time
from monitor_server.text_safety.printable import printable

__all__ = [
    "CHANGES",
    "LONGEST_SUMMARY",
    "MAX_SHOWN",
    "harmless",
    "markdown",
    "sentence",
    "text",
    "title",
]

MAX_SHOWN: Final = 20  # in text and Markdown
LONGEST_NAME: Final = 80
LONGEST_SUMMARY: Final = 400
LONGEST_NOTICE: Final = 1_500
# Similar characters replace those that make a link, a mention, a tag, a character reference or a quotation in some
# service.
HARMLESS: Final = str.maketrans(
    {"@": "＠", "<": "＜", ">": "＞", "[": "［", "]": "］", "`": "｀", "|": "｜", "&": "＆"}
)
# Mail programs and chats also turn bare domains into links; numbers such as 0.25 stay unchanged.
DOMAIN_DOT: Final = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2})")
SCHEME: Final = re.compile(r"\b(mailto|tel|sms|data|javascript):", re.IGNORECASE)
MARKDOWN: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\*_{}()#+-.!~"})
# The changes of an alert, in the order in which a message names them.
CHANGES: Final = {
    "opened": "opened", "raised": "has become more severe", "unacknowledged": "is not acknowledged",
    "resolved": "is resolved",
}  # fmt: skip


def title(body: Mapping[str, Any]) -> str:
    """Return one harmless line of at most about 200 characters."""
    if body["test"]:
        return f"rlvitals: test of the channel {body['channel']}"
    if body.get("notice"):  # a message that an older version has formed has no notice
        return "rlvitals: somebody has changed who is notified"
    counts, alerts = body["counts"], body["alerts"]
    prefix = "resolved" if set(counts["changes"]) == {"resolved"} else body["severity"].upper()
    if counts["alerts"] == 1 and alerts:
        alert = alerts[0]
        return f"[{prefix}] {harmless(alert['kind'])} in {harmless(alert['run'])} ({harmless(alert['project'])})"
    kinds = ", ".join(harmless(kind, longest=40) for kind in list(counts["kinds"])[:3])
    return f"[{prefix}] {_number(counts['alerts'], 'alert')} in {_number(counts['runs'], 'run')}: {kinds}"


def text(body: Mapping[str, Any], *, most_alerts: int = MAX_SHOWN) -> str:
    """Return a message as plain text, which names at most ``most_alerts`` and counts the others."""
    return _write(body, most_alerts, escape=str, heading=str, link=lambda url: url)


def markdown(body: Mapping[str, Any], *, most_alerts: int = MAX_SHOWN) -> str:
    """Return a message as Markdown, which names at most ``most_alerts`` and counts the others."""
    return _write(
        body, most_alerts, escape=_escape_markdown, heading=lambda line: f"**{line}**", link=lambda url: f"<{url}>"
    )


def harmless(given: object, *, longest: int = LONGEST_NAME) -> str:
    """Return a text from outside as one line that is no link, no mention and no markup in any service."""
    line = printable(given, longest=longest).translate(HARMLESS).replace("://", "：//")
    return DOMAIN_DOT.sub("．", SCHEME.sub(r"\1：", line))


def sentence(given: str) -> str:
    """Return a text that ends with a full stop, unless it already ends with a mark, such as an error."""
    return given if given.endswith((".", "!", "?", "…")) else f"{given}."


def _write(
    body: Mapping[str, Any],
    most_alerts: int,
    *,
    escape: Callable[[str], str],
    heading: Callable[[str], str],
    link: Callable[[str], str],
) -> str:
    blocks = []
    if body["test"]:
        blocks.append(escape("This is a test. Nothing has happened; the channel works."))
    if body.get("notice"):
        blocks.append(escape(harmless(body["notice"], longest=LONGEST_NOTICE)))
        blocks.append(link(body["url"]))
    for channel, reason in body["failing_channels"].items():
        line = f"The channel {channel} fails, and its alerts come here: {harmless(reason, longest=200)}"
        blocks.append(heading(escape(line)))
    shown = body["alerts"][:most_alerts]
    blocks += ["\n".join(_lines(alert, escape=escape, heading=heading, link=link)) for alert in shown]
    missing = body["counts"]["alerts"] - len(shown)
    if missing > 0:
        kinds = ", ".join(f"{number} {harmless(kind)}" for kind, number in list(body["counts"]["kinds"].items())[:10])
        what = "more alert" if shown else "alert"
        more = f"{_number(missing, what)} {'is' if missing == 1 else 'are'}"
        line = f"{more} not named here. All {body['counts']['alerts']}, by kind: {kinds}"
        blocks.append(f"{escape(line)}\n{link(body['url'])}")
    return "\n\n".join(blocks)


def _lines(
    alert: Mapping[str, Any], *, escape: Callable[[str], str], heading: Callable[[str], str], link: Callable[[str], str]
) -> list[str]:
    changes = " and ".join(CHANGES[change] for change in alert["changes"])
    if alert.get("reopened_from"):
        changes = changes.replace(CHANGES["opened"], "opened again")
    lines = [heading(escape(f"{harmless(alert['kind'])} ({alert['severity']}) {changes}"))]
    opened = f"Opened at {spell_time(alert['opened_at'])}."
    if run_end := alert.get("run_end"):  # a message that an older version has formed does not say it
        opened += f" The run has ended ({run_end})."
    lines.append(
        escape(f"Run {harmless(alert['run'])} of project {harmless(alert['project'])}, {_steps(alert)}. {opened}")
    )
    lines.append(escape(sentence(f"Evidence: {harmless(alert['summary'], longest=LONGEST_SUMMARY)}")))
    if suspicion := _suspicion(alert):
        lines.append(escape(suspicion))
    if alert["state"] == "firing":
        todo = " ".join(f"{each['change']}. {each['how']}" for each in alert["remedies"])
        lines.append(escape(f"What to do: {todo or first_steps(alert['kind'])}"))
    return [*lines, link(alert["url"]), *_links(alert, escape=escape, link=link)]


def _suspicion(alert: Mapping[str, Any]) -> str:
    """Return which part of the training is suspected, and what makes the instrument the first to check."""
    # A message that an older version has formed names neither.
    suspect, doubted_by = alert.get("suspect", Suspect.UNKNOWN), alert.get("instrument_alerts", ())
    named = [] if suspect == Suspect.UNKNOWN else [f"Suspect: {suspect}."]
    if doubted_by:
        named.append(f"Check the instrument first, because of {', '.join(doubted_by)} on this run.")
    return " ".join(named)


def _links(alert: Mapping[str, Any], *, escape: Callable[[str], str], link: Callable[[str], str]) -> list[str]:
    """Return a line for each link by which a reader acts."""
    given = alert.get("links", ())
    if not given:
        return []
    until = spell_time(given[0]["expires_at"])
    heading = escape(f"Each link below acts once, until {until}; its page asks you before anything happens.")
    return [heading, *(f"{escape(each['label'])}: {link(each['url'])}" for each in given)]


def _steps(alert: Mapping[str, Any]) -> str:
    since = f"since step {alert['opened_step']}"
    if (end := alert["resolved_step"]) is not None:
        if alert.get("is_taken_back"):  # a message that an older version has formed does not say it
            return f"{since} until the run went back to step {end}"
        if is_clock_kind(alert["kind"]) and not (alert.get("run_end") and end == alert["opened_step"]):
            return f"after step {alert['opened_step']}; it has reached step {end}"
        if not is_clock_kind(alert["kind"]):
            return f"from step {alert['opened_step']} to step {end}"
    if is_clock_kind(alert["kind"]):
        return f"after step {alert['opened_step']}"
    if alert["severity_step"] != alert["opened_step"]:
        return f"{since}, {alert['severity']} since step {alert['severity_step']}"
    return since


def _escape_markdown(line: str) -> str:
    return line.translate(MARKDOWN)


def _number(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
