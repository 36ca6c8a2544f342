"""The warm start of the reference trainer's tiny preset; a `conftest.py` imports the fixture that its folder needs."""

import fcntl
import os
from pathlib import Path

import pytest

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.presets import PRESETS


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the warm start of the reference trainer's tiny preset, trained once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "warm"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm_start(Config(**PRESETS["tiny"], cache=folder))
    return folder
