"""The object that a training loop holds: it logs steps, and keeps the newest answer of the collector."""

import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, Self, SupportsFloat

from trainer_hooks.actions import ActionPolicy
from trainer_hooks.delivery import (
    BackoffTransport,
    BatchProcessor,
    DropCounter,
    Exporter,
    RecordQueue,
    SendingQueue,
    Transport,
    make_spool,
)
from trainer_hooks.launch.live_monitors import add_monitor, share_exit_seconds
from trainer_hooks.launch.process_exit import ProcessExit, has_succeeded
from trainer_hooks.probes.paired import Paired
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.recording.action_requests import NO_ACTOR, RequestReceiver
from trainer_hooks.recording.batches import BatchBuilder
from trainer_hooks.recording.health import RunHealth
from trainer_hooks.recording.inputs import InputReader
from trainer_hooks.recording.records import Measurement, RecordBuilder, whole_step
from trainer_hooks.recording.sequence_numbers import take_first_number
from trainer_hooks.rollouts import Rollouts
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.text_safety import describe_object
from trainer_hooks.wire import RUN_ENDS, ActionReport, AlertNotice, Receipt, RunEnd, decode_batch

__all__ = ["Monitor", "NullMonitor"]

CLOSE_TIMEOUT_SECONDS = 5.0
MADE_ELSEWHERE = (
    "NOTHING IS RECORDED: this monitor was made in another process, which reports for the rank; if this process "
    "trains, call trainer_hooks.connect in the function that it runs"
)


class Monitor:
    """Streams the steps of one rank of a run to a collector; made by `trainer_hooks.connect`.

    After construction nothing here raises into training, waits on the network, or draws from the training's random
    generators. A forked child (a data loader's worker) inherits a monitor that does nothing, because one process
    reports for a rank; if the child logs a step, one warning says that the step is not sent.

    Args:
        settings: The collector, and the run, attempt and rank of this process.
        transport: Carries batches; without one they stay in the spool, and `trainer_hooks.sync` sends them.
        config: The run's configuration, JSON values.
        source: The program that produces the records, such as ``"trl 1.16.0"``.
        on_alert: Called once for each alert that fires on the run, in a background thread; also for one that was
            resolved before a receipt could name it.
        policy: Decides what to do about each of these alerts; the framework's callback, or your loop, carries it out.
        redact: Receives each text of a sampled response and returns what may be sent; called in a background thread.
        clock: Seconds since the epoch, for the time of records.
        close_timeout_seconds: Longest wait of `close`.

    Raises:
        ConfigurationError: If the spool is the only place for records and cannot be made.

    Attributes:
        policy: A copy of the one given, which decides about this run alone.
        texts: Whether texts of responses may leave the process; only then do adapters decode them.
        drops: Counts dropped records by reason; adapters count their own errors here.
        end_at_exit: How the run has ended where nothing has closed the monitor when the interpreter exits. Python does
            not tell whether ``SystemExit`` ended the script, so an adapter that closes at the end of training sets
            ``stopped``.
    """

    policy: ActionPolicy | None = None
    texts: bool = False
    drops: DropCounter
    end_at_exit: RunEnd = "finished"
    _why_silent: str = ""

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
        self.policy = policy = copy.copy(policy)
        self.texts = settings.texts
        self._clock = clock
        self._close_timeout_seconds = close_timeout_seconds
        self.drops = DropCounter()
        self._reader = InputReader(
            self.drops,
            responses=settings.responses,
            response_seconds=settings.response_seconds,
            seed=f"{settings.attempt} {settings.rank}",
        )
        rank = (settings.project, settings.run, settings.attempt, settings.rank)
        sending_queue = SendingQueue(self.drops, spool=make_spool(settings, is_only_place=transport is None))
        # The policy does not receive an alert that has stopped firing, because it is no reason to act any more.
        on_passed = [on_alert] if on_alert else []
        listeners = [*([policy.consider, self._warn_without_actor] if policy else []), *on_passed]
        self._requests = RequestReceiver(policy, reports=settings.rank == 0)
        self._health = RunHealth(
            settings.attempt,
            self.drops,
            listeners,
            on_passed=on_passed,
            on_request=self._requests.consider,
            rank=settings.rank,
            world_size=settings.world_size,
        )
        self._batches = BatchBuilder(settings, config=config, source=source)
        self._transport = BackoffTransport(transport) if transport else None
        self._queue: RecordQueue[Measurement] = RecordQueue(self.drops)
        self._processor = BatchProcessor(
            self._queue,
            sending_queue,
            self.drops,
            records=RecordBuilder(
                settings,
                self.drops,
                self._health,
                redact=redact,
                spool_bytes=lambda: sending_queue.spool_bytes,
                first_seq=take_first_number(self, rank, clock()),
            ),
            batches=self._batches,
            exporter=Exporter(
                self._transport,
                sending_queue,
                self.drops,
                encode_heartbeat=self._batches.encode_heartbeat,
                on_receipt=self._update_health,
            )
            if self._transport
            else None,
        )
        self._exit = ProcessExit(self._close_at_exit)
        self._blocking_seconds: float | None = None
        self._is_silent = False
        self._is_closed = False

    def start(self) -> None:
        """Start delivery; `connect` calls this. Where the process may have no more threads, nothing is recorded."""
        add_monitor(self)
        try:
            self._processor.start()
        except RuntimeError as error:
            self._is_silent = True
            advice = "if the process has as many threads as it may have, raise the limit and start again"
            self.drops.warn("thread", f"NOTHING IS RECORDED: {error}; {advice}")
            return
        self._exit.register()

    def __repr__(self) -> str:
        """Name the run, whose name may have been made: a notebook shows this of a cell that ends with the monitor."""
        return f"<{type(self).__name__} of run {self.run!r}, phase {self.phase}>"

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def phase(self) -> str:
        """The newest phase that the collector reported for this attempt (docs/detection.md); ``unknown`` before."""
        return self._health.phase

    @property
    def healthy_step(self) -> int | None:
        """The newest step of this attempt at which the collector found the run healthy; None before the first."""
        return self._health.healthy_step

    @property
    def alerts(self) -> tuple[AlertNotice, ...]:
        """The alerts that fire on the run, as the collector last reported them for this attempt; none before."""
        return self._health.alerts

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
        recomputed: Sequence[Recomputed] = (),
        actions: Sequence[ActionReport] = (),
    ) -> None:
        """Log the measurements of one optimiser step. Copies them, returns at once and never raises.

        Log everything about a step in one call: detectors process a step once, and a second call makes a second record.
        A step lower than the last one is a rewind and starts a new attempt. Where the rollouts also give a signal, they
        take precedence over the scalar of that name.

        Args:
            step: Optimiser step, ≥ 0.
            scalars: Numbers by canonical signal name (docs/signals.md) or a name of your own.
            rollouts: The step's token arrays, or the arguments of `Rollouts` as a mapping. A mapping is validated in
                the background; where arrays contradict each other, that is counted in ``hooks/rejected_rollouts``
                instead of raised. Tensors on an accelerator are reduced there and fetched with one copy, together
                with scalars on it.
            grad_norm: Gradient norm before clipping; a short form of ``scalars["grad/norm"]``.
            data_version: Name of the data, which changes with the curriculum; without it, the data are those of the
                step before.
            policy_version: Updates applied to the policy that produced these numbers.
            paired: Tokens scored before and after the step's update (`trainer_hooks.probes.rescoring`).
            recomputed: Reported numbers beside the same numbers computed again (`trainer_hooks.probes.recomputation`).
            actions: Reports of the actions that were taken about alerts after this step; the adapters set them. The
                policy that asks for actions is an argument of `trainer_hooks.connect`.
        """
        if self._is_silent:
            if self._why_silent:
                self.drops.warn("silent", self._why_silent, once=True)
            return
        try:
            started = time.perf_counter()
            if actions:
                self._requests.add_reports(actions)
            number = whole_step(step)
            given = self._reader.copy_scalars(scalars) if scalars is not None else {}
            if grad_norm is not None:
                given["grad/norm"] = grad_norm
            now = self._clock()
            scored = self._reader.list_scores(paired, recomputed) if paired or recomputed else []
            numbers, tokens, changes = self._reader.read(given, rollouts, scored, now)
            seconds = self._blocking_seconds
            reports = self._requests.take_reports()
            item = Measurement(
                number,
                now,
                numbers,
                tokens,
                changes,
                rollouts is not None,
                seconds,
                policy_version,
                data_version,
                reports,
            )
            if not self._queue.put(item, item.nbytes) and reports:
                self._requests.put_back(reports)
            self._blocking_seconds = time.perf_counter() - started
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.drops.count_error(error, lost="unpacked")

    @property
    def is_waiting(self) -> bool:
        """Whether the monitor may still wait for its collector: it records, and was not closed."""
        return not (self._is_silent or self._is_closed)

    def detach_after_fork(self) -> None:
        """Do nothing from now on. Called in a forked child, because its parent reports for the rank."""
        self._is_silent, self._why_silent = True, MADE_ELSEWHERE
        self._processor.detach_after_fork()

    def begin_acting(self) -> ActionPolicy | None:
        """Return the policy to the adapter that carries out its decisions in a training that begins.

        Decisions that an earlier training with this monitor has left undone are refused.
        """
        self._requests.begin_acting()
        return self.policy

    def read_numbers(self, scalars: Mapping[str, SupportsFloat]) -> dict[str, float]:
        """Convert scalars to floats, for adapters that have to know a value before they log it.

        Returns:
            Numbers by name; those on a device are fetched with one copy, and a value that is no number is left out and
            counted. Empty if the monitor does nothing, or the argument is no mapping.
        """
        if self._is_silent:
            return {}
        try:
            return self._reader.read_numbers(scalars)
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.drops.count_error(error)
            return {}

    def flush(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS) -> bool:
        """Wait until the collector has answered for everything that was logged (offline: until it is on disk).

        Args:
            timeout_seconds: Longest wait, ≥ 0.

        Returns:
            Whether that happened within the timeout.
        """
        if self._is_silent:
            return True
        try:
            return self._processor.flush(min(timeout_seconds, threading.TIMEOUT_MAX))
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.drops.count_error(error)
            return False

    def close(self, end: RunEnd = "finished") -> None:
        """Send the remaining records, for a few seconds at most, and report how the run ended; safe to call twice.

        Where ``on_alert`` or ``redact`` calls this, their thread goes on to send the records, and another call, or the
        exit of the interpreter, waits for it.

        Args:
            end: ``finished``, or ``stopped`` if the run has ended before its time; another word is sent as ``stopped``,
                with a warning.
        """
        self._close(end)

    def _close(self, end: RunEnd, *, sending_seconds: float = inf) -> None:
        if self._is_silent:
            return
        is_first, self._is_closed = not self._is_closed, True
        try:
            if is_first:
                self._batches.end = self._read_end(end)
                if self._transport:
                    self._transport.end_delay()
            if self._processor.close(self._close_timeout_seconds, sending_seconds=sending_seconds):
                self._exit.cancel()
        except Exception as error:  # noqa: BLE001 - nothing of ours raises into training
            self.drops.count_error(error)

    def _read_end(self, given: RunEnd) -> RunEnd:
        """Return how the run ended; the collector would refuse the last batch with another word."""
        if given in RUN_ENDS:
            return given
        self.drops.warn(
            "end", f"the end must be one of {RUN_ENDS}, got {describe_object(given)}; it is sent as stopped"
        )
        return "stopped"

    def __reduce__(self) -> "tuple[type[Monitor], tuple[str]]":
        """Become a monitor that does nothing in another process: the process that connected reports for the rank."""
        return NullMonitor, (MADE_ELSEWHERE,)

    def __copy__(self) -> Self:
        """Return this monitor itself, as `__deepcopy__` does."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return this monitor itself: a copied configuration or callback goes on with the same one."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; the run is `stopped` after an exception, unless it is `sys.exit()` of a program that succeeded."""
        self.close("finished" if has_succeeded(error) else "stopped")

    def _close_at_exit(self, error: BaseException | None) -> None:
        end: RunEnd = self.end_at_exit if has_succeeded(error) else "stopped"
        self._close(end, sending_seconds=share_exit_seconds(self._close_timeout_seconds))

    def _warn_without_actor(self, _alert: AlertNotice) -> None:
        if not self._requests.is_acting:
            self.drops.warn("actions", f"AN ALERT LEADS TO NO ACTION, because {NO_ACTOR}", once=True)

    def _update_health(self, receipt: Receipt, body: bytes) -> None:
        self._health.update(receipt, decode_batch(body).attempt)


class NullMonitor(Monitor):
    """A monitor without a collector: accepts every call, does nothing and costs nothing.

    Args:
        reason: Why nothing is recorded, logged once when a step is; without one nothing is logged.
    """

    def __init__(self, reason: str = "") -> None:
        """Make a silent monitor; the base class would prepare delivery."""
        self._why_silent = reason
        self.drops = DropCounter()
        self._run = ""
        self._health = RunHealth(0, self.drops)
        self._requests = RequestReceiver(None, reports=False)
        self._is_silent = True

    def __reduce__(self) -> "tuple[type[Monitor], tuple[str]]":
        """Become the same in another process."""
        return NullMonitor, (self._why_silent,)

    def __repr__(self) -> str:
        """Say that nothing is recorded."""
        return "<NullMonitor: records nothing>"

    def start(self) -> None:
        """Do nothing."""

    def detach_after_fork(self) -> None:
        """Do nothing, as before the fork."""
