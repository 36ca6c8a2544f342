"""`python -m trainer_hooks.reference`: train, stream, and show progress in the terminal."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

import trainer_hooks
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.loop import Loop
from trainer_hooks.reference.train import Trainer
from trainer_hooks.reference.warm_start import warm_start

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code: 2 where the run cannot begin as asked."""
    config = Config.from_command_line(arguments)
    torch.set_num_threads(config.threads)
    if config.is_llds_inert:
        _say(
            "warning: LLDS is on and does nothing: with one update a rollout batch every penalty is zero, and its "
            "gradient too; raise --minibatches or --epochs"
        )
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()}
    trainer = Trainer(config, warm_start(config, report=_say))
    try:
        monitor = trainer_hooks.connect(
            config.url, config.project, config.run_name, config=settings, source="reference"
        )
        loop = Loop(config, trainer, monitor, _say)
        loop.resume()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - one line for the terminal
        return 2
    with monitor:
        loop.run()
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - progress is for the terminal


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
