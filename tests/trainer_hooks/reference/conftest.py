"""An environment and a configuration small enough for tests to train in a second."""

import pytest
import torch

from tests.tiny_cache import tiny_cache
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.presets import PRESETS

__all__ = ["tiny_cache"]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def tiny(tiny_cache):
    """The tiny preset."""
    return Config(**PRESETS["tiny"], cache=tiny_cache)


@pytest.fixture
def model(tiny):
    """A fresh copy of the tiny warm start."""
    return warm_start(tiny)
