"""Checks logs without a server: the findings of the detectors, the possible savings, and the signals that are missing.

`assert_healthy` is for tests by people who train small models in continuous integration.
"""

from monitor_server.log_check.assertion import assert_healthy

__all__ = ["assert_healthy"]
