"""Refuses to send a log to a run of a collector that has another log's steps, which would take their place."""

import functools
import math
from collections.abc import Mapping, Sequence

from monitor_server.commands.client import CollectorAnswer, fetch_items, fetch_json, fetch_list
from monitor_server.commands.errors import RequestRefusedError
from monitor_server.commands.repeated_requests import repeat_while_busy
from monitor_server.detection.protocol import Observation
from monitor_server.importers.protocol import LogError, RecordedLog
from monitor_server.text_safety.printable import printable
from trainer_hooks import wire

__all__ = ["require_same_run"]

ROUNDING = 1e-6  # relative; event files hold the numbers of a run as float32


def require_same_run(log: RecordedLog, steps: Sequence[Observation], *, url: str, project: str) -> None:
    """Compare steps of a log with those that the collector has under its project, name, attempt and step.

    These are up to 100 steps from the first one and 100 from the last one that both can have, where forks differ.

    Raises:
        CommandError: If the collector does not answer or requires another key.
        LogError: If the collector has other values. It would store none of the log's steps that are there already.
    """
    path = f"/runs/{wire.run_id(project, log.name)}"
    try:
        last = repeat_while_busy(lambda: fetch_json("GET", url, path))["last_step"] or 0
    except RequestRefusedError as refusal:
        if refusal.status == 404:  # noqa: PLR2004 - HTTP's number for a run that is not there
            return
        raise
    attempts = repeat_while_busy(lambda: [*fetch_items(url, f"{path}/attempts")])
    numbers = {attempt["attempt"]: attempt["number"] for attempt in attempts}
    sent = {(step.attempt, step.step): step.signals for step in steps}
    for first in (steps[0].step, min(last, steps[-1].step)):
        fields = {"from_step": str(first), "limit": "100"}
        for found in repeat_while_busy(functools.partial(fetch_list, url, f"{path}/steps", fields)):
            signals = sent.get((numbers.get(found["attempt"], 0), found["step"]), {})
            if _differ(signals, found["signals"]):
                raise LogError(
                    f"{log.path} was not sent: the collector has another run {printable(log.name)!r} in the project "
                    f"{printable(project)!r}, with other values at step {found['step']}; a run is known by its project "
                    "and name, so give this log another --project"
                )


def _differ(sent: Mapping[str, float], stored: CollectorAnswer) -> bool:
    """Whether two steps have a signal with two values, or no signal in common."""
    common = sent.keys() & stored.keys()
    if not common:
        return bool(sent and stored)
    return not all(_is_equal(sent[name], float(stored[name])) for name in common)  # NaN and infinity come as text


def _is_equal(sent: float, stored: float) -> bool:
    return math.isclose(sent, stored, rel_tol=ROUNDING) or (math.isnan(sent) and math.isnan(stored))
