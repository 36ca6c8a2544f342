"""Processor seconds of the SDK inside a training: in its own thread, and in those of the delivery."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.reference.run import loop as reference_loop
from trainer_hooks.reference.run import telemetry

__all__ = ["Meter", "delivery_seconds"]


class Meter:
    """Counts the time of the training thread in the SDK: under the callbacks' guard, and in `log_step`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._since = 0.0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Count every entry into the SDK."""
        leave = Guard.__exit__

        def leave_guard(guard: Guard, *error: Any) -> bool:  # noqa: ANN401 - an exception's parts
            self._leave()
            return leave(guard, *error)

        with (
            patch.object(Guard, "__enter__", lambda _: self._enter()),
            patch.object(Guard, "__exit__", leave_guard),
            patch.object(trainer_hooks.Monitor, "log_step", self._around(trainer_hooks.Monitor.log_step)),
            patch.object(reference_loop, "rollouts", self._around(telemetry.rollouts)),
        ):
            yield

    def _enter(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._since = time.thread_time()

    def _leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.thread_time() - self._since

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - depends on the function
            self._enter()
            try:
                return call(*args, **kwargs)
            finally:
                self._leave()

        return counted


def delivery_seconds() -> float:
    """Return the processor seconds that the SDK's running threads have used."""
    clocks = [
        time.pthread_getcpuclockid(thread.ident)
        for thread in threading.enumerate()
        if thread.name.startswith("rlvitals-") and thread.ident is not None
    ]
    return sum(time.clock_gettime(clock) for clock in clocks)
