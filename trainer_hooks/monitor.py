"""What a training loop holds: `Monitor.log_step`, and what came back. Neither delivers nor computes signals itself."""

import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, SupportsFloat

from trainer_hooks.actions import ActionPolicy
from trainer_hooks.delivery import BackingOff, Courier, Outbox, Spool, Tally, Transport
from trainer_hooks.errors import ConfigurationError
from trainer_hooks.probes.paired import Paired
from trainer_hooks.recording.inputs import Inputs
from trainer_hooks.recording.shipper import Measurement, RecordShipper
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import ActionReport, AlertNotice, RunEnd, run_id

__all__ = ["Monitor", "NullMonitor"]

CLOSE_TIMEOUT_SECONDS = 5.0
NUMBER_BYTES = 100  # with its name


class Monitor:
    """Streams the steps of one rank of a run to a collector; made by `trainer_hooks.connect`.

    After construction nothing here raises into training, waits on the network, or draws from the training's random
    generators. A forked child (a data loader's worker) inherits a silent monitor: one process speaks for a rank.

    Args:
        settings: Where records go and whose they are.
        transport: Carries batches; without one they stay in the spool, for `trainer_hooks.sync`.
        config: The run's configuration, JSON values.
        source: What produces the records, such as ``"trl 1.16.0"``.
        on_alert: Called once for each alert that fires on the run, in a background thread.
        policy: Decides what to do about each of these alerts; the framework's callback, or your loop, carries it out.
        redact: Given each text of a sampled response, gives what may leave; called in a background thread.
        clock: Seconds since the epoch, stamped on records.
        close_timeout_seconds: Longest wait of `close`.

    Raises:
        ConfigurationError: If the spool is the only place for records, and cannot be made.

    Attributes:
        policy: As given.
        texts: Whether texts of responses may leave the process; adapters make them only then.
        tally: What was lost, by reason; adapters count their own errors here.
    """

    policy: ActionPolicy | None = None
    texts: bool = False
    tally: Tally

    def __init__(
        self,
        settings: ConnectionSettings,
        transport: Transport | None,
        *,
        config: dict[str, object] | None = None,
        source: str = "",
        on_alert: Callable[[AlertNotice], object] | None = None,
        policy: ActionPolicy | None = None,
        redact: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.time,
        close_timeout_seconds: float = CLOSE_TIMEOUT_SECONDS,
    ) -> None:
        self._run = settings.run
        self.policy = policy
        self.texts = settings.texts
        self._clock = clock
        self._close_timeout_seconds = close_timeout_seconds
        self.tally = Tally()
        self._inputs = Inputs(
            self.tally,
            responses=settings.responses,
            response_seconds=settings.response_seconds,
            seed=f"{settings.attempt} {settings.rank}",
        )
        spool = _spool(settings)
        if spool and transport is None:
            _require(spool, settings)
        outbox = Outbox(self.tally, spool=spool)
        self._shipper = RecordShipper(
            settings,
            self.tally,
            config=config,
            source=source,
            on_alert=[*([policy.take] if policy else []), *([on_alert] if on_alert else [])],
            redact=redact,
            spool_bytes=lambda: outbox.spool_bytes,
            # In µs, since no process logs a step in one: what it sends is never taken for an earlier process's.
            first_seq=int(clock() * 1e6),
        )
        self._transport = BackingOff(transport) if transport else None
        self._courier: Courier[Measurement] = Courier(self._shipper, self._transport, outbox, self.tally)
        self._blocking_seconds: float | None = None
        self._is_silent = False
        self._is_closed = False

    def start(self) -> None:
        """Start delivery; `connect` has done it."""
        _live.add(self)
        atexit.register(self._close_at_exit)
        self._courier.start()

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def phase(self) -> str:
        """The newest phase the collector told of this attempt (docs/detection.md); ``unknown`` before."""
        return self._shipper.verdict.phase

    @property
    def healthy_step(self) -> int | None:
        """The newest step of this attempt at which the collector found the run healthy; None before there is one."""
        return self._shipper.verdict.healthy_step

    def log_step(
        self,
        step: int,
        scalars: Mapping[str, SupportsFloat] | None = None,
        rollouts: Rollouts | Mapping[str, Any] | None = None,
        grad_norm: SupportsFloat | None = None,
        *,
        data_version: str | None = None,
        policy_version: int | None = None,
        paired: Sequence[Paired] = (),
        actions: Sequence[ActionReport] = (),
    ) -> None:
        """Hand over what was measured at one optimiser step; copies, returns at once and never raises.

        Give everything about a step in one call: a step counts once, and a second call for it is a second record. A
        step lower than the last one is a rewind and starts a new attempt. A scalar that the rollouts also yield
        gives way to them.

        Args:
            step: Optimiser step, ≥ 0.
            scalars: Numbers by canonical signal name (docs/signals.md) or a name of your own.
            rollouts: The step's token arrays; or the arguments of `Rollouts` as a mapping, which are validated in
                the background and, where they contradict each other, counted in ``hooks/rejected_rollouts`` instead
                of raised. Tensors on an accelerator are reduced there, and come here with one copy, along with
                scalars that are there too.
            grad_norm: Gradient norm before clipping; short for ``scalars["grad/norm"]``.
            data_version: What the data are, changed with the curriculum.
            policy_version: Updates applied to the policy that produced these numbers.
            paired: Tokens scored before and after the step's update (`trainer_hooks.probes.probe`).
            actions: What was done about alerts after this step; the adapters fill it in.
        """
        if self._is_silent:
            return
        started = time.perf_counter()
        try:
            given: dict[str, Any] = {**scalars} if scalars else {}
            if grad_norm is not None:
                given["grad/norm"] = grad_norm
            now = self._clock()
            numbers, tokens, changes = self._inputs.taken(given, rollouts, paired, now)
            seconds = self._blocking_seconds
            self._courier.hand_over(
                Measurement(int(step), now, numbers, tokens, changes, seconds, policy_version, data_version, actions),
                NUMBER_BYTES * len(numbers) + (tokens.nbytes if tokens else 0),
            )
            self._blocking_seconds = time.perf_counter() - started
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.tally.swallow(error, lost="unpacked")

    def flush(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS) -> bool:
        """Wait until the collector has answered for all that was logged (offline: until it is on disk).

        Returns:
            Whether it was in time.
        """
        return self._is_silent or self._courier.flush(timeout_seconds)

    def close(self, end: RunEnd = "finished") -> None:
        """Deliver what is left, for a few seconds at most, and say how the run ended; safe to call twice."""
        if self._is_silent or self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self._close_at_exit)
        try:
            self._shipper.end = end
            if self._transport:
                self._transport.try_now()
            self._courier.close(self._close_timeout_seconds)
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.tally.swallow(error)

    def __reduce__(self) -> "tuple[type[Monitor], tuple[()]]":
        """Arrive silent in another process, as in a forked one: the one that connected speaks for the rank."""
        return NullMonitor, ()

    def __deepcopy__(self, memo: object) -> Self:
        """Stay one: a copied configuration or callback goes on with the same monitor."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close("finished" if kind is None else "stopped")

    def _close_at_exit(self) -> None:
        # Set by the interpreter when an exception ends the script.
        self.close("stopped" if getattr(sys, "last_value", None) is not None else "finished")

    def _silence(self) -> None:
        self._is_silent = True
        self._courier.disown()


class NullMonitor(Monitor):
    """A monitor without a collector: takes everything, does nothing, costs nothing."""

    def __init__(self) -> None:
        """Start nothing, and so not the base either."""
        self.tally = Tally()

    @property
    def run(self) -> str:
        """No run."""
        return ""

    @property
    def phase(self) -> str:
        """Nothing is known."""
        return "unknown"

    @property
    def healthy_step(self) -> int | None:
        """Nothing is known."""
        return None

    def start(self) -> None:
        """Start nothing."""

    def log_step(
        self,
        step: int,
        scalars: Mapping[str, SupportsFloat] | None = None,
        rollouts: Rollouts | Mapping[str, Any] | None = None,
        grad_norm: SupportsFloat | None = None,
        *,
        data_version: str | None = None,
        policy_version: int | None = None,
        paired: Sequence[Paired] = (),
        actions: Sequence[ActionReport] = (),
    ) -> None:
        """Forget the step."""

    def flush(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS) -> bool:  # noqa: ARG002 - the base's signature
        """Have nothing to wait for."""
        return True

    def close(self, end: RunEnd = "finished") -> None:
        """Close nothing."""


def _require(spool: Spool, settings: ConnectionSettings) -> None:
    """Make the folder of what goes nowhere else."""
    try:
        spool.own()
    except (OSError, ImportError) as error:
        raise ConfigurationError(
            f"RLVITALS_SPOOL_DIR must be a folder that can be written where there is no RLVITALS_URL, got "
            f"{str(settings.spool_dir)!r}: {error}"
        ) from error


def _spool(settings: ConnectionSettings) -> Spool | None:
    if settings.spool_dir is None:
        return None
    return Spool(
        settings.spool_dir / run_id(settings.project, settings.run),
        # Attempts of 15 digits last for 30,000 years of milliseconds.
        name=f"{settings.attempt:015d}-{settings.rank:05d}",
        capacity_bytes=settings.spool_bytes,
    )


_live: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _silence_inherited() -> None:
    for monitor in _live:
        monitor._silence()  # noqa: SLF001 - the fork hook is the monitor's own, and cannot be a method


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_inherited)
