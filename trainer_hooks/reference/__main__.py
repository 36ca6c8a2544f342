"""`python -m trainer_hooks.reference`: train, stream, and show progress in the terminal."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

try:
    import torch
except ModuleNotFoundError as missing:
    sys.exit(
        f"rlvitals: the reference trainer needs {missing.name}, which is not installed: pip install 'rlvitals[trainer]'"
    )

import trainer_hooks
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.tool import ToolError
from trainer_hooks.reference.distributed import Ranks, device_of
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.run.checkpoints import CheckpointError
from trainer_hooks.reference.run.loop import Loop
from trainer_hooks.reference.run.task_choice import build_policy_and_environment
from trainer_hooks.reference.run.trainer import Trainer, TrainingError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for settings that cannot work, 1 for a failure later."""
    config = Config.from_command_line(arguments)
    torch.set_num_threads(config.threads)
    torch.set_float32_matmul_precision(config.matmul_precision)
    ranks = Ranks.join()
    try:
        return _run(config, ranks)
    finally:
        ranks.leave()


def _run(config: Config, ranks: Ranks) -> int:
    try:
        loop = _loop(config, ranks, _print if ranks.rank == 0 else lambda _: None)
    except (ValueError, OSError, ToolError) as error:
        return _fail(error, code=2)
    try:
        with loop.monitor:
            loop.run()
    except (TrainingError, ToolError, CheckpointError, FloatingPointError, OSError) as error:
        return _fail(error, code=1)
    return 0


def _loop(config: Config, ranks: Ranks, report: Callable[[str], None]) -> Loop:
    """Build the trainer, the connection to the collector and the loop around both.

    Raises:
        ValueError: If the settings, the checkpoint or the connection cannot work.
        OSError: If the warm start cannot be read or written, or the log or the folder of checkpoints cannot be written.
        ToolError: If the search tool does not answer during the supervised start.
    """
    if config.is_llds_inert or (config.is_at_old_policy and config.covariance_weight > 0):
        report(
            f"warning: {'LLDS' if config.is_llds_inert else 'KL-Cov'} does nothing here: with one update a rollout "
            "batch every penalty is zero, and its gradient too; raise --minibatches or --epochs"
        )
    if ranks.rank == 0:
        _require_writable(config)
        if config.model is None:
            warm_start(config, report=report)
    # The other ranks read the warm start that rank 0 has written.
    ranks.barrier()
    policy, environment = build_policy_and_environment(config, device_of(config.device, ranks), report=report)
    trainer = Trainer(config, policy, environment, ranks=ranks)
    loop = Loop(config, trainer, trainer_hooks.NullMonitor(), report)
    loop.resume()
    # The connection comes last, because its new attempt replaces the run's current attempt at the collector. If the
    # start is refused, detection must go on with a live run of that name.
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()}
    loop.monitor = trainer_hooks.connect(
        config.url,
        config.project,
        config.run_name,
        config=settings,
        rank=ranks.rank,
        world_size=ranks.size,
        source="reference",
        texts=config.texts or None,
    )
    if config.on_acceleration != "none" and isinstance(loop.monitor, trainer_hooks.NullMonitor):
        raise ValueError(
            f"on_acceleration {config.on_acceleration} needs a collector, whose verdict it acts on, got no address: "
            "give --url, or set RLVITALS_URL"
        )
    return loop


def _require_writable(config: Config) -> None:
    """Make the log and the folder of checkpoints: one that cannot be written must not cost the steps before it."""
    if config.log is not None:
        config.log.open("a", encoding="utf-8").close()
    if config.checkpoint_every:
        config.checkpoint_folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=config.checkpoint_folder).close()


def _fail(error: Exception, *, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)  # noqa: T201 - one line for the terminal
    return code


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - progress is for the terminal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
