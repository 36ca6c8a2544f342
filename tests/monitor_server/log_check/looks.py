"""Follows a log in a test, which writes to it between the looks."""

from itertools import islice

from monitor_server.log_check.growing_log import follow

RESTS = [lambda: None] * 5  # in which the newest step is examined


class OutOfLooksError(Exception):
    """The test has ended."""


def followed(log, *writes, looks=60, notify=lambda _: None, seconds=1e6, overrides=None):
    """Follow a log that has one more of the writes at each look, and return its changes."""
    waiting, left = list(writes), iter(range(looks))

    def sleep(_):
        if next(left, None) is None:
            raise OutOfLooksError
        if waiting:
            waiting.pop(0)()

    changes = []
    try:
        looked = follow(log, seconds=seconds, overrides=overrides, sleep=sleep, waiting=notify)
        for change in islice(looked, 100):
            changes.append(change)  # noqa: PERF402 - those before the end are kept
    except OutOfLooksError:
        pass
    return changes
