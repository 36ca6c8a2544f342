"""What `rlvitals replay` asks a collector about the run that it sends: how far its detectors are, and its alerts."""

import functools
import time
from collections.abc import Sequence

from monitor_server.commands.client import CollectorAnswer, fetch_items, fetch_json, fetch_list
from monitor_server.commands.repeated_requests import repeat_while_busy
from monitor_server.commands.terminal import printable, say

__all__ = ["ReplayedRun"]

# The collector stores a batch and then runs the detectors on it; after this time without a new step they have ended.
DETECTION_SECONDS = 5.0
POLL_SECONDS = 0.1


class ReplayedRun:
    """A run that is sent to a collector at the moment.

    Args:
        url: Address of the collector.
        run_id: The run, of which a step is stored when a method is called.

    Attributes:
        id: The run.
    """

    def __init__(self, url: str, run_id: str) -> None:
        self.id = run_id
        self._url = url
        self._path = f"/runs/{run_id}"

    def acknowledge(self, kinds: Sequence[str], attempt: int, step: int) -> None:
        """Acknowledge alerts as somebody did after a step when the run was recorded.

        A run that is beyond the step has the acknowledgement from an earlier replay, and its newest alerts are others.
        """
        ordinal = self._ordinal(attempt)
        self._wait(ordinal, step)
        run = self._read()
        if (run["attempt"], run["last_step"] or 0) > (ordinal, step):
            return
        alerts = repeat_while_busy(lambda: fetch_list(self._url, f"{self._path}/alerts", {"limit": "1000"}))
        for kind in kinds:
            newest = next((alert for alert in alerts if alert["kind"] == kind), None)
            if newest is not None:
                path, body = f"/alerts/{newest['id']}/ack", {"by": "rlvitals replay", "note": ""}
                repeat_while_busy(functools.partial(fetch_json, "POST", self._url, path, json=body))

    def wait_for_detection(self, attempt: int, step: int) -> bool:
        """Wait until the detectors have processed a step, as long as they make progress.

        Returns:
            Whether its attempt is the newest one of the run. No detector processes new steps of another one.
        """
        return self._wait(self._ordinal(attempt), step)

    def print_alerts(self) -> None:
        """Print the newest alerts in the order of their steps."""
        alerts = repeat_while_busy(lambda: fetch_list(self._url, f"{self._path}/alerts"))
        for alert in sorted(alerts, key=lambda alert: alert["severity_step"]):
            say(f"  step {alert['severity_step']:>5}  {alert['severity']:<8}  {printable(alert['summary'])}")
        if not alerts:
            say("  no alert")

    def _wait(self, ordinal: int, step: int) -> bool:
        newest, since = None, time.monotonic()
        while time.monotonic() - since < DETECTION_SECONDS:
            run = self._read()
            if run["attempt"] > ordinal:
                return False
            fields = {"from_step": str(step), "limit": "1"}
            for found in repeat_while_busy(functools.partial(fetch_list, self._url, f"{self._path}/steps", fields)):
                if (found["step"], found["attempt"]) == (step, ordinal):
                    return True
            before, newest = newest, run["last_step"]
            if newest != before:
                since = time.monotonic()
            time.sleep(POLL_SECONDS)
        return True

    def _ordinal(self, attempt: int) -> int:
        """Return the place of an attempt among those of the run, some of which others have sent; 0 if it is gone."""
        found = repeat_while_busy(lambda: [*fetch_items(self._url, f"{self._path}/attempts")])
        return next((each["attempt"] for each in found if each["number"] == attempt), 0)

    def _read(self) -> CollectorAnswer:
        return repeat_while_busy(lambda: fetch_json("GET", self._url, self._path))
