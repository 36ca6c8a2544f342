"""Write one small run with each real logging library: run in an environment with requirements/overhead.txt.

    python write.py FOLDER          # writes FOLDER/{wandb,tensorboard,mlflow,trackio}…
    python write.py FOLDER --seed 7 --steps 120 # other numbers, for the property test

The fixtures beside this file were written with wandb 0.31.0, tensorboard 2.21.0, mlflow 3.17.2 and trackio 0.43.0.
"""

import argparse
import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

KEYS = ("reward", "kl", "grad_norm", "actor/entropy", "my/own", "tiny")
LIBRARIES = ("wandb", "tensorboard", "tensors", "mlflow-files", "mlflow-database", "trackio")


def rows(seed: int, steps: int) -> Iterator[dict[str, float]]:
    """Yield steps of six numbers, NaN and both infinities among them."""
    draw = random.Random(seed)  # noqa: S311 - numbers for a test
    for step in range(1, steps + 1):
        row = {key: draw.uniform(-1.0, 1.0) * 10.0 ** draw.randint(-12, 12) for key in KEYS}
        row |= {20: {"kl": math.nan}, 21: {"kl": math.inf}, 22: {"kl": -math.inf}}.get(step, {})
        yield {"step": step, **row}


def write_wandb(folder: Path, written: Sequence[dict[str, float]]) -> None:
    """Write an offline run."""
    import wandb  # noqa: PLC0415 - each library is imported alone

    settings = wandb.Settings(x_disable_meta=True, x_disable_machine_info=True, console="off")
    run = wandb.init(mode="offline", project="p", name="a run", dir=str(folder), settings=settings)
    for row in written:
        run.log({key: row[key] for key in KEYS}, step=int(row["step"]))
    run.finish()


def write_tensorboard(folder: Path, written: Sequence[dict[str, float]], *, tensors: bool = False) -> None:
    """Write an event file as torch's SummaryWriter does, or scalars as tensors as TensorFlow 2 does."""
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - likewise
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415 - likewise
    from tensorboard.plugins.scalar.metadata import create_summary_metadata  # noqa: PLC0415 - likewise
    from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415 - likewise
    from tensorboard.util.tensor_util import make_tensor_proto  # noqa: PLC0415 - likewise

    writer = EventFileWriter(str(folder / ("tensors" if tensors else "tensorboard")))
    for row in written:
        for key in KEYS:
            if tensors:
                metadata = create_summary_metadata(display_name="", description="")
                value = Summary.Value(tag=key, tensor=make_tensor_proto(row[key], dtype="float32"), metadata=metadata)
            else:
                value = Summary.Value(tag=key, simple_value=row[key])
            step = int(row["step"])
            writer.add_event(Event(wall_time=1e9 + step, step=step, summary=Summary(value=[value])))
    writer.close()


def write_mlflow(written: Sequence[dict[str, float]], store: str) -> None:
    """Write a run into a file store or a SQLite database."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "1"
    import mlflow  # noqa: PLC0415 - likewise

    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("an experiment")
    with mlflow.start_run(run_name="a run"):
        for row in written:
            mlflow.log_metrics({key: row[key] for key in KEYS}, step=int(row["step"]))


def write_trackio(folder: Path, written: Sequence[dict[str, float]]) -> None:
    """Write a run into a project's database."""
    os.environ["TRACKIO_DIR"] = str(folder / "trackio")
    import trackio  # noqa: PLC0415 - likewise

    trackio.init(project="p", name="a run", embed=False)
    for row in written:
        trackio.log({key: row[key] for key in KEYS}, step=int(row["step"]))
    trackio.finish()


def main() -> None:
    """Write every library's run, and the numbers themselves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", choices=LIBRARIES, nargs="*", default=LIBRARIES)
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    written = list(rows(given.seed, given.steps))
    writers = {
        "wandb": lambda: write_wandb(folder, written),
        "tensorboard": lambda: write_tensorboard(folder, written),
        "tensors": lambda: write_tensorboard(folder, written, tensors=True),
        "mlflow-files": lambda: write_mlflow(written, f"file:{folder}/mlflow-files"),
        "mlflow-database": lambda: write_mlflow(written, f"sqlite:///{folder}/mlflow.db"),
        "trackio": lambda: write_trackio(folder, written),
    }
    for library in given.only:
        writers[library]()
    (folder / "rows.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
