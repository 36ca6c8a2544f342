"""`python -m trainer_hooks.reference`: train, stream, and show progress in the terminal."""

import sys
from dataclasses import asdict

import torch

import trainer_hooks
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.telemetry import append_log, line, rollouts
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start

__all__ = ["main"]

LINE_EVERY = 2
"""Steps between two lines of the terminal."""


def main() -> int:
    """Run the command line and give the exit code."""
    config = Config.from_command_line()
    torch.set_num_threads(config.threads)
    if config.is_llds_inert:
        _say(
            "warning: LLDS is on and does nothing: with one update a rollout batch every penalty is zero, and its "
            "gradient too; raise --minibatches or --epochs"
        )
    trainer = Trainer(config, warm_start(config, report=_say))
    settings = {name: str(value) if name in ("cache", "log") else value for name, value in asdict(config).items()}
    with trainer_hooks.connect(config.url, config.project, config.run_name, config=settings) as monitor:
        while trainer.step_number < config.steps:
            result = trainer.step()
            monitor.log_step(
                result.step,
                scalars=result.scalars,
                rollouts=rollouts(result, clip=config.clip),
                grad_norm=result.grad_norm,
            )
            if config.log is not None:
                append_log(config.log, result, clip=config.clip)
            if result.step % LINE_EVERY == 0 or result.step == 1:
                _say(line(result, str(monitor.phase)))
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - progress is for the terminal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
