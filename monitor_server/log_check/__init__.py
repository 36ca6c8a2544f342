"""Checks logs without a server: what the detectors find in them, what that would have saved, and what was not logged.

`assert_healthy` is for the tests of people who train small models in continuous integration.
"""

from monitor_server.log_check.assertion import assert_healthy

__all__ = ["assert_healthy"]
