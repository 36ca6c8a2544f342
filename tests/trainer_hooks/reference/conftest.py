"""A world and a configuration small enough for tests to train in a second."""

import pytest
import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.presets import PRESETS


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory):
    """One warm start for all tests."""
    return tmp_path_factory.mktemp("warm")


@pytest.fixture
def tiny(tiny_cache):
    """The tiny preset."""
    return Config(**PRESETS["tiny"], cache=tiny_cache)


@pytest.fixture
def model(tiny):
    """A fresh copy of the tiny warm start."""
    return warm_start(tiny)
