"""Each tool, used offline as its manual says: started in a folder, given steps, finished.

A tool without histograms is given the 64 counts that the others compute. Imports are inside functions, because a
process has one tool. The first entry is no tool: it shows the cost of a call that does nothing with a step.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trainer_hooks import Monitor

__all__ = ["LOGGERS", "OURS", "RESPONSES", "WITHOUT_COPY", "Logger", "Payload"]

Arrays = Mapping[str, NDArray[np.float32]]
Payload = tuple[Mapping[str, float], Arrays]
BINS = 64
KEPT_STEPS = 100
RESPONSES = 2560


@dataclass(frozen=True, slots=True)
class Logger:
    """A tool that is ready.

    Attributes:
        log: Logs a step's numbers and arrays.
        finish: Waits until all data are stored.
        sent_bytes: Bytes sent elsewhere than to the folder.
    """

    log: Callable[[int, Mapping[str, float], Arrays], object]
    finish: Callable[[], object]
    sent_bytes: Callable[[], int] = lambda: 0


def _logging(monitor: "Monitor", **options: bool) -> Callable[[int, Mapping[str, float], Arrays], None]:
    """Log three numbers a response: likelihoods before and after the update, and rewards."""
    mask = np.ones((RESPONSES, 1), dtype=bool)  # a trainer has it anyway

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        monitor.log_step(step, scalars, {**arrays, "mask": mask, **options} if arrays else None)

    return log


def _rlvitals_offline(folder: Path, **options: bool) -> Logger:
    from trainer_hooks import connect  # noqa: PLC0415

    os.environ["RLVITALS_SPOOL_DIR"] = str(folder)
    os.environ.pop("RLVITALS_URL", None)
    monitor = connect(run="r")
    return Logger(_logging(monitor, **options), monitor.close)


def _rlvitals(folder: Path) -> Logger:
    from trainer_hooks.delivery.http import HttpTransport  # noqa: PLC0415
    from trainer_hooks.monitor import Monitor  # noqa: PLC0415
    from trainer_hooks.settings import ConnectionSettings  # noqa: PLC0415
    from trainer_hooks.wire import Receipt  # noqa: PLC0415

    class Counting(HttpTransport):
        sent = 0

        def send(self, body: bytes) -> Receipt:
            self.sent += len(body)
            return super().send(body)

    os.environ["RLVITALS_SPOOL_DIR"] = str(folder)
    settings = ConnectionSettings.resolve(run=folder.name)
    if settings is None:
        raise RuntimeError("the worker must be given RLVITALS_URL, got none")
    transport = Counting(settings.url)
    monitor = Monitor(settings, transport)
    monitor.start()
    return Logger(_logging(monitor), monitor.close, lambda: transport.sent)


def _appended(_: Path) -> Logger:
    """Copy a step and keep it for a while, which is the least work of any tool that works in the background."""
    waiting: deque[tuple[int, dict[str, float], dict[str, bytes]]] = deque()

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        if len(waiting) == KEPT_STEPS:
            waiting.clear()
        waiting.append((step, {**scalars}, {name: array.tobytes() for name, array in arrays.items()}))

    return Logger(log, waiting.clear)


def _wandb(folder: Path) -> Logger:
    import wandb  # noqa: PLC0415

    run = wandb.init(mode="offline", project="p", dir=str(folder), settings=wandb.Settings(silent=True))

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        run.log({**scalars, **{name: wandb.Histogram(array) for name, array in arrays.items()}}, step=step)

    return Logger(log, run.finish)


def _trackio(folder: Path) -> Logger:
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio  # noqa: PLC0415

    trackio.init(project="p", auto_log_gpu=False, auto_log_cpu=False)

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        histograms = {name: trackio.Histogram(array, num_bins=BINS) for name, array in arrays.items()}
        trackio.log({**scalars, **histograms}, step=step)

    return Logger(log, trackio.finish)


def _mlflow(folder: Path, *, synchronous: bool) -> Logger:
    import mlflow  # noqa: PLC0415

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = mlflow.create_experiment("p", artifact_location=(folder / "artifacts").as_uri())
    mlflow.start_run(experiment_id=experiment)

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        mlflow.log_metrics(dict(scalars), step=step, synchronous=synchronous)
        if arrays:
            counts = {name: np.histogram(array, bins=BINS)[0].tolist() for name, array in arrays.items()}
            mlflow.log_dict(counts, f"histograms/{step}.json")

    def finish() -> None:
        if not synchronous:
            mlflow.flush_async_logging()
        mlflow.end_run()

    return Logger(log, finish)


def _tensorboard(folder: Path) -> Logger:
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

    writer = SummaryWriter(str(folder))

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, step)
        for name, array in arrays.items():
            writer.add_histogram(name, array, step, bins=BINS)

    return Logger(log, writer.close)


def _swanlab(folder: Path) -> Logger:
    import swanlab  # noqa: PLC0415

    run = swanlab.init(mode="offline", project="p", log_dir=str(folder))

    def log(step: int, scalars: Mapping[str, float], arrays: Arrays) -> None:
        texts = {name: swanlab.Text(str(np.histogram(array, bins=BINS)[0].tolist())) for name, array in arrays.items()}
        run.log({**scalars, **texts}, step=step)

    return Logger(log, run.finish)


OURS = "rlvitals, offline"
WITHOUT_COPY = f"{OURS}, copy=False"
LOGGERS: dict[str, Callable[[Path], Logger]] = {
    "a copy in a queue, no more": _appended,
    OURS: _rlvitals_offline,
    WITHOUT_COPY: lambda folder: _rlvitals_offline(folder, copy=False),
    "rlvitals, to a collector": _rlvitals,
    "trackio": _trackio,
    "wandb, offline": _wandb,
    "tensorboard": _tensorboard,
    "swanlab, offline": _swanlab,
    "mlflow, asynchronous": lambda folder: _mlflow(folder, synchronous=False),
    "mlflow": lambda folder: _mlflow(folder, synchronous=True),
}
