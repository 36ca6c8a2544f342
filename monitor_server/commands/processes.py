"""Processes that a command starts, such as a collector, and ends together with itself."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import urllib3

__all__ = [
    "collector_arguments",
    "environment_without_settings",
    "interrupt_on_signals",
    "interrupted_by_sigterm",
    "python_process",
    "wait_until_ready",
]

START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.2
PREFIX = "RLVITALS_"
KEPT = ("RLVITALS_LOG_LEVEL", "RLVITALS_LOG_FORMAT")


def collector_arguments(port: int, database: str) -> list[str]:
    """Return the arguments for a Python process that serves a database on a port of this machine."""
    return ["-m", "monitor_server", "serve", "--port", str(port), "--database", database]


def environment_without_settings() -> dict[str, str]:
    """Return the environment of this process without the settings of rlvitals, except those of the log.

    Settings are read from variables in capital and in small letters.
    """
    return {
        name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX) or name.upper() in KEPT
    }


def interrupt_on_signals() -> None:
    """Let SIGTERM end this command as Ctrl-C does, and SIGINT also if it is a background job of a shell.

    Otherwise the processes and files of the command would be left behind.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with SIGINT ignored
        signal.signal(number, signal.default_int_handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that an unfinished file is removed.

    Only the main thread of a process can do so; the block of another thread is unchanged.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def python_process(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a Python process and end it with the block: SIGTERM first, SIGKILL after ten seconds.

    It has its own session, so that the terminal's Ctrl-C does not reach it and the processes end in our order. Without
    an environment it has that of this process.
    """
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603 - our own modules
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(url: str, collector: "subprocess.Popen[bytes]") -> bool:
    """Wait until a collector answers, and return False if it ends or takes longer than a minute."""
    deadline = time.monotonic() + START_SECONDS
    while collector.poll() is None and time.monotonic() < deadline:
        try:
            if urllib3.request("GET", f"{url}/readyz", timeout=2.0, retries=False).status == 200:  # noqa: PLR2004
                return True
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(LOOK_SECONDS)
    return False
