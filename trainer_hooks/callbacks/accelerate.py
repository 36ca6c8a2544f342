"""A tracker for Accelerate: ``Accelerator(log_with=VitalsTracker())``. Scalars only; `torch_loop` takes tokens."""

from collections.abc import Callable, Mapping
from typing import Any

from accelerate.tracking import GeneralTracker

import trainer_hooks
from trainer_hooks.callbacks.shared.error_guard import Guard
from trainer_hooks.callbacks.shared.naming import TRANSFORMERS, canonical

__all__ = ["VitalsTracker"]


class VitalsTracker(GeneralTracker):
    """Sends the values given to ``accelerator.log(values, step=...)``, from the main process.

    ``loss``, ``grad_norm`` and ``learning_rate`` become signals. A canonical name is kept as it is, and any other name
    is sent as ``accelerate/name``. A value that is not a number is left out and counted in ``hooks/rejected_scalars``.

    Args:
        run_name: Name of the run; else `RLVITALS_RUN`, else one is generated.
        url: Address of the collector; else `RLVITALS_URL`. Without either nothing happens.
        project: Project of the run.
        api_key: Key with the scope ingest.
        on_alert: Called with each alert that fires on the run, in a background thread.
    """

    name = "rlvitals"
    requires_logging_directory = False
    main_process_only = True

    def __init__(
        self,
        run_name: str | None = None,
        *,
        url: str | None = None,
        project: str = "default",
        api_key: str | None = None,
        on_alert: "Callable[[trainer_hooks.AlertNotice], object] | None" = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._guard = Guard()
        self._step = 0
        self._options: dict[str, Any] = {"url": url, "project": project, "api_key": api_key, "on_alert": on_alert}
        self._run_name = run_name
        self._monitor: trainer_hooks.Monitor = trainer_hooks.NullMonitor()
        self._is_connected = False

    @property
    def tracker(self) -> "trainer_hooks.Monitor":
        """The monitor of this tracker, for ``log_step`` with rollouts."""
        self._connect(None)
        return self._monitor

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Connect and send the configuration; Accelerate calls this from ``init_trackers``."""
        self._connect(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **_: object) -> None:
        """Log a step's numbers; without ``step`` they belong to the step after the last one."""
        with self._guard:
            self._connect(None)
            if isinstance(self._monitor, trainer_hooks.NullMonitor):
                return
            self._step = self._step + 1 if step is None else step
            numbers = canonical(self._monitor.read_numbers(values), TRANSFORMERS, prefix="accelerate")
            self._monitor.log_step(self._step, numbers)

    def finish(self) -> None:
        """Send the remaining records; Accelerate calls this from ``end_training``. A later training connects again."""
        with self._guard:
            self._monitor.close()
        self._is_connected, self._step = False, 0

    def _connect(self, config: Mapping[str, Any] | None) -> None:
        if not self._is_connected:
            self._is_connected = True
            # The main process sends for all ranks, because the other ranks have no tracker.
            self._monitor = trainer_hooks.connect(
                run=self._run_name, config=config, rank=0, world_size=1, source="accelerate", **self._options
            )
            self._guard.count_for(self._monitor)
