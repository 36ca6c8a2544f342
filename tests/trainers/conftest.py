import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.trainers import stubs  # noqa: F401 - before anybody imports a trainer

# isort: split
from tests.bad_collectors import BAD_COLLECTORS, nobody_listens
from tests.trainer_hooks.conftest import clean_environment, collector, connect, swallowed  # noqa: F401

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # tests are no package, and other processes import the modules of this folder
torch.set_num_threads(1)


@pytest.fixture
def ends_of(tmp_path, unused_port):
    """A function that runs a training of this folder with arms of `untouched`, and returns the final state of each."""
    from tests.trainer_hooks.callbacks import tiny_trl  # noqa: PLC0415 - not every environment has a TRL that fits

    tiny_trl.model(tmp_path / "model")

    def ends_of(script, arms, **environ):
        group = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        group |= {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(unused_port),
            "OMP_NUM_THREADS": "1",
            "RLVITALS_RUN": "r",
        }
        # Importing a trainer decides whether the hooks are active, so the first address decides it.
        group |= {"RLVITALS_URL": arms[0][0]} if arms else {}
        done = subprocess.run(
            [sys.executable, str(HERE / script), str(tmp_path / "model"), *(word for arm in arms for word in arm)],
            env=os.environ | {"PYTHONPATH": str(HERE.parents[1])} | group | environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=240,
        )
        return [line.removeprefix("end ") for line in done.stdout.splitlines() if line.startswith("end ")]

    return ends_of


@pytest.fixture
def every_collector(collector, tmp_path):  # noqa: F811 - the fixture
    """Arms: a collector that accepts everything, each kind that fails, and none without a place for unsent records."""
    file = tmp_path / "in the way"
    file.touch()
    with contextlib.ExitStack() as stack:
        bad = [stack.enter_context(serve()) for serve in BAD_COLLECTORS.values()]
        yield [
            (collector.url, str(tmp_path / "spool")),
            *((url, str(tmp_path / f"spool{index}")) for index, url in enumerate(bad)),
            (stack.enter_context(nobody_listens()), str(file)),
        ]
