"""A pytest assertion: a training log has no alarms."""

import os
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from monitor_server.importers.protocol import LogError
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.signal_names import SIGNALS
from monitor_server.log_check.examination import Outcome, examine
from monitor_server.log_check.reports.terminal import print_report

__all__ = ["assert_healthy"]


def assert_healthy(
    log: str | os.PathLike[str], *, fail_on: str = "critical", names: Mapping[str, str] | None = None
) -> None:
    """Assert that the detectors find no alarm in a training log.

    A log without any signal that a detector reads fails as well, because it does not show that the run is healthy.

    Args:
        log: A log file, or a folder of them, in any format of docs/importers.md.
        fail_on: ``"critical"``, or ``"warning"`` to fail on warnings too.
        names: Signal → the log's own key, such as ``{"reward/mean": "my_reward"}``.

    Raises:
        AssertionError: If there is an alarm; its message is the report of `rlvitals check`. Also if a key of ``names``
            is in no row of any log.
        LogError: If a log cannot be read, including one of several in a folder.
        ValueError: If ``fail_on`` is neither of the two, or ``names`` contains a name that is not a signal.
    """
    if fail_on not in (Outcome.CRITICAL, Outcome.WARNING):
        raise ValueError(f'fail_on must be "critical" or "warning", got {fail_on!r}')
    unread = dict(names or {})
    if unknown := sorted(unread.keys() - SIGNALS):
        raise ValueError(f"names must map signals of docs/signals.md to keys of the log, got {', '.join(unknown)}")
    failing = {Outcome.CRITICAL, Outcome.NOT_OBSERVED} | ({Outcome.WARNING} if fail_on == Outcome.WARNING else set())
    for each in find_logs([Path(log)], list((names or {}).values()), _refuse):
        found = examine(each, overrides=names)
        unread = {signal: key for signal, key in unread.items() if signal in found.mapping.unused_overrides()}
        if found.outcome in failing:
            console = Console(width=100, highlight=False, markup=False, emoji=False, color_system=None)
            with console.capture() as captured:
                print_report(console, found)
            raise AssertionError(captured.get().strip())
    if unread:
        raise AssertionError("; ".join(f"{signal} = {key}: no row has this key" for signal, key in unread.items()))


def _refuse(reason: str) -> None:
    raise LogError(reason)
