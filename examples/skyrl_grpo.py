"""GRPO with SkyRL, watched: its own entry point, whose trainer gets the callback. Takes SkyRL's arguments."""

import sys
from typing import Any

import ray
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.utils import initialize_ray, validate_cfg

from trainer_hooks.callbacks.skyrl import VitalsCallback


class WatchedExp(BasePPOExp):
    """SkyRL's experiment; it has no setting that names a callback."""

    def get_trainer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - SkyRL's trainer and what it takes
        """Add the callback to the trainer."""
        trainer = super().get_trainer(*args, **kwargs)
        trainer.add_callback(VitalsCallback())
        return trainer


@ray.remote(num_cpus=1)
def train(config: SkyRLTrainConfig) -> None:
    """Train in a Ray process, as SkyRL does."""
    WatchedExp(config).run()


if __name__ == "__main__":
    config = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(config)
    initialize_ray(config)
    ray.get(train.remote(config))
