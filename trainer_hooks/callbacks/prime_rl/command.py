"""``python -m trainer_hooks.callbacks.prime_rl RUN_FOLDER``: follows a prime-rl run until it is stopped."""

import argparse
import itertools
import logging
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import trainer_hooks
from trainer_hooks.callbacks.prime_rl.follower import Follower
from trainer_hooks.settings import find_run_name

__all__ = ["main"]

logger = logging.getLogger("trainer_hooks")

POLL_SECONDS = 2.0
POLLS_PER_FULL_SCAN = 15  # a full scan finds a run that went back to an earlier step


def main(arguments: Sequence[str] | None = None, *, stop: threading.Event | None = None) -> int:
    """Follow a run until it is stopped, then send the steps that are complete.

    Args:
        arguments: The arguments of the command line.
        stop: Ends the command once it is set; unless given, SIGINT and SIGTERM end it.

    Returns:
        The exit status: 1 if `--once` has sent a part of the run, because the collector does not answer.
    """
    parser = argparse.ArgumentParser(
        prog="python -m trainer_hooks.callbacks.prime_rl", description="Follow a prime-rl run until it is stopped"
    )
    parser.add_argument("folder", type=Path, help="the run's folder, which will hold token_exports")
    parser.add_argument("--url", help="address of the collector (RLVITALS_URL)")
    parser.add_argument("--project", default="default", help="project of the run (RLVITALS_PROJECT)")
    parser.add_argument("--run", help="name of the run (RLVITALS_RUN, else the folder's name)")
    parser.add_argument("--once", action="store_true", help="send the steps that are complete, and finish the run")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        if given.once or given.folder.exists():
            parser.error(f"{given.folder} must be a folder")
        logger.warning("rlvitals: %s does not exist yet; it is followed once prime-rl has created it", given.folder)
    stop = stop or _event_of_signals()
    run = find_run_name(given.run) or given.folder.resolve().name
    monitor = trainer_hooks.connect(given.url, given.project, run, rank=0, world_size=1, source="prime-rl")
    if isinstance(monitor, trainer_hooks.NullMonitor):
        parser.error("the collector's address is needed; give --url or set RLVITALS_URL")
    follower = Follower(given.folder, monitor)
    if given.once:
        while follower.catch_up():
            pass
    else:
        polls = itertools.count()
        while not stop.wait(POLL_SECONDS):
            if next(polls) % POLLS_PER_FULL_SCAN == 0 or follower.is_behind():
                follower.catch_up()
        follower.catch_up()  # the last steps of a run become complete shortly before it ends
    is_whole = given.once and follower.is_acknowledged
    monitor.close("finished" if is_whole else "stopped")
    if given.once and not is_whole:
        logger.error("rlvitals: the collector has not acknowledged every step; give the command again when it answers")
        return 1
    return 0


def _event_of_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
